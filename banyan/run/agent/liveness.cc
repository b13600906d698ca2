#include "banyan/run/agent/liveness.h"

#include <algorithm>
#include <utility>

namespace banyan::run {

Liveness::Liveness(uint32_t size)
    : states_(std::make_unique<std::atomic<Health>[]>(size)), whys_(size), uncertain_(size) {
  for (uint32_t rank = 0; rank < size; ++rank) states_[rank] = Health::alive;
}

std::string Liveness::why(uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  return whys_[rank];
}

std::optional<uint32_t> Liveness::first_dead(std::span<const uint32_t> ranks) const {
  const std::lock_guard lock(mutex_);
  const auto is_asked = [&](uint32_t rank) { return std::ranges::find(ranks, rank) != ranks.end(); };
  const auto found = std::ranges::find_if(dead_, is_asked);
  if (found == dead_.end()) return std::nullopt;
  return *found;
}

bool Liveness::is_certain(uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  return !uncertain_[rank];
}

std::string Liveness::fence() const {
  const std::lock_guard lock(mutex_);
  return fence_;
}

void Liveness::set_fence(std::string why) {
  {
    const std::lock_guard lock(mutex_);
    fence_ = std::move(why);
  }
  is_fenced_.store(true, std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_release);
}

bool Liveness::set(uint32_t rank, Health state, std::string why, bool is_certain) {
  if (is_gone(rank) || states_[rank].load(std::memory_order_relaxed) == state) return false;
  {
    // Before the state: who sees it may ask why.
    const std::lock_guard lock(mutex_);
    whys_[rank] = std::move(why);
    if (state == Health::dead) dead_.push_back(rank);
    uncertain_[rank] = !is_certain;
  }
  states_[rank].store(state, std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_release);
  return true;
}

}  // namespace banyan::run
