// Says in words why nothing moves: which rank is late at which call.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "banyan/run/executor.h"

namespace banyan {

struct StalledRank {
  RankProgress progress;
  bool is_silent = false;  // its process gives no sign of life
};

struct Stall {
  uint32_t own = 0;
  uint32_t waited_for = 0;
  CallNumbers call{};     // that this rank waits in
  uint64_t sequence = 0;  // its number
  std::span<const StalledRank> ranks;
};

// "this rank, 0, waits in allreduce of 4 float32 (sum), its call 17, for rank 3, which has not made it: its last was
// call 16, barrier". Names silent ranks first, then those that have not made the call, then the one that is waited for.
std::string explain(const Stall& stall);

}  // namespace banyan
