// Liveness: which ranks of a world still live, for loops that may neither lock nor wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/run/record/health.h"

namespace banyan::run {

// The state of each world rank: alive, silent, left or dead. A rank that was called dead once stays dead for all ranks,
// or they could not act alike.
//
// One thread writes (that of the agent), any may read.
class Liveness {
 public:
  explicit Liveness(uint32_t size);

  uint32_t size() const { return static_cast<uint32_t>(whys_.size()); }
  // One load.
  Health state(uint32_t rank) const { return states_[rank].load(std::memory_order_acquire); }
  bool is_gone(uint32_t rank) const { return run::is_gone(state(rank)); }
  // Grows with every change of any state, after that change: a loop compares it with what it saw last, and looks at the
  // states when it differs. May be slept on (futex.h), if a hook wakes it
  // (hooks.h).
  std::atomic<uint32_t>& changes() const { return changes_; }
  // Why a rank is not alive, as far as that is known: "process 4711 on node7 has ended". Empty for those that are.
  // Locks.
  std::string why(uint32_t rank) const;
  // The one of `ranks` that died first, as far as this process has seen it: the others may have ended because of that.
  // Locks.
  std::optional<uint32_t> first_dead(std::span<const uint32_t> ranks) const;

  // True if a rank that is gone is so by the word of its kernel, or its own; else it may live behind a fence (hub.h),
  // and know what it knew. Locks.
  bool is_certain(uint32_t rank) const;
  // Why this rank is out of the world itself, by the word of those who took it for dead; empty while it is not. Locks,
  // but for the first.
  bool is_fenced() const { return is_fenced_.load(std::memory_order_acquire); }
  std::string fence() const;

  // For the writing thread only. False when nothing changed: ranks that are gone stay as they are.
  bool set(uint32_t rank, Health state, std::string why, bool is_certain = true);
  void set_fence(std::string why);

 private:
  std::unique_ptr<std::atomic<Health>[]> states_;
  mutable std::atomic<uint32_t> changes_{0};  // futexes are not const, even for those who only sleep
  std::atomic<bool> is_fenced_{false};
  mutable std::mutex mutex_;  // protects what follows
  std::vector<std::string> whys_;
  std::vector<uint32_t> dead_;  // in their order
  std::vector<bool> uncertain_;
  std::string fence_;
};

}  // namespace banyan::run
