// Staging: buffers of a call in memory that the daemon sees.
//
// What lies in the process's RegionPool is named where it is. Everything else is copied: `stage` copies what is sent,
// `finish` what has come. Blocks are powers of two bytes, kept for later calls, so a program that repeats its calls
// takes memory once; trim() gives back what no call uses.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/service/client/attachment.h"
#include "banyan/service/protocol/submission.h"

namespace banyan::service {

// What is to be done when a call is over. Move-only.
struct StagedCall {
  struct Block {
    Attachment::Memory memory;
    size_t bytes = 0;
  };
  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
  };
  std::vector<Block> blocks;    // to be given back
  std::vector<Copy> copies;     // of what has come
  std::vector<std::shared_ptr<const Attachment::Offered>> offers;  // of what was named
};

class Staging {
 public:
  Staging(Attachment& attachment, uint32_t rank, uint32_t size)
      : attachment_(attachment), rank_(rank), size_(size) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The submission of a call, but for its sequence, and what it has taken. Throws what Attachment throws; then nothing
  // has been taken.
  struct Staged {
    Submission submission;
    StagedCall call;
  };
  Staged stage(const run::Call& call);
  // Copies what has come, if the call is `done`, and gives the blocks back.
  void finish(StagedCall call, bool is_done);
  void trim();

  size_t held_bytes() const { return held_; }

 private:
  StagedCall::Block take(size_t bytes);

  Attachment& attachment_;
  const uint32_t rank_, size_;
  std::vector<StagedCall::Block> free_;  // by size
  size_t held_ = 0;
};

}  // namespace banyan::service
