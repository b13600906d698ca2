#include "banyan/run/join/liveness.h"

#include <utility>

namespace banyan {

const char* name_of(PeerState state) {
  switch (state) {
    case PeerState::alive:
      return "alive";
    case PeerState::silent:
      return "silent";
    case PeerState::left:
      return "left";
    case PeerState::dead:
      return "dead";
  }
  return "unknown";
}

Liveness::Liveness(uint32_t size) : states_(std::make_unique<std::atomic<PeerState>[]>(size)), whys_(size) {
  for (uint32_t rank = 0; rank < size; ++rank) states_[rank] = PeerState::alive;
}

std::string Liveness::why(uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  return whys_[rank];
}

bool Liveness::set(uint32_t rank, PeerState state, std::string why) {
  if (is_gone(rank) || states_[rank].load(std::memory_order_relaxed) == state) return false;
  {
    // Before the state: who sees it may ask why.
    const std::lock_guard lock(mutex_);
    whys_[rank] = std::move(why);
  }
  states_[rank].store(state, std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_release);
  return true;
}

}  // namespace banyan
