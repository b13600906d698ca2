// KeptInput: the input of an execution whose output may share memory with it. There, results overwrite what is still
// wanted: by another role, when the plan shuffles, or by a repetition of the whole.
//
// For Execution. One thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "banyan/run/engine/slot_pool.h"

namespace banyan::run {

class KeptInput {
 public:
  explicit KeptInput(SlotPool& pool) : pool_(pool) {}
  KeptInput(const KeptInput&) = delete;
  KeptInput& operator=(const KeptInput&) = delete;
  ~KeptInput() { forget(); }

  struct Options {
    bool shuffles = false;    // the plan
    bool can_rewind = false;  // restore() may be wanted
  };
  // Begins with these buffers. Nothing is kept of earlier ones.
  void begin(std::span<const std::byte> input, std::span<const std::byte> output, const Options& options);
  // The input to be read: the caller's, or a copy.
  const std::byte* data() const { return input_.data(); }
  bool is_copy() const { return copy_.saved != nullptr; }
  // Called before these bytes of the output are written.
  void save(std::byte* place, size_t size) {
    if (logs_) log(place, size);
  }
  // Puts back what has been overwritten, and forgets it.
  void restore();
  void forget();

 private:
  struct Undo {
    std::byte* place = nullptr;
    std::byte* saved = nullptr;
    size_t size = 0;
  };
  void log(std::byte* place, size_t size);

  SlotPool& pool_;
  std::span<const std::byte> whole_;  // the caller's
  std::span<const std::byte> input_;  // the same, or the copy
  Undo copy_;
  bool logs_ = false;
  std::vector<Undo> undo_;
};

}  // namespace banyan::run
