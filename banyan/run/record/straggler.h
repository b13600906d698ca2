// Stragglers: ranks that are not stuck, but come last to most operations and make the others wait.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "banyan/run/record/dump.h"

namespace banyan::run {

struct Straggler {
  uint32_t rank = 0;
  uint64_t operations = 0;  // that were looked at
  double share = 0;         // of them that it entered last
  int64_t lateness = 0;     // ns after the last but one, on average over those
  double cost = 0;          // what part of the time the others spent waiting for it
  // "rank 5 entered last in 93 % of 1,000 operations, on average 1.2 ms after the others, ..."
  std::string sentence{};
};

// The straggler of one communicator. `dumps`: one per rank, two at least. Looks at the operations that none leaves
// before all have entered, whose exact times all dumps know (see recorder.h). Between hosts, whose clocks differ, an
// operation is taken to end everywhere at the same moment. There must be kLeastOperations of them; the rank must be
// last in clearly more than its share and cost more than kLeastCost of the time.
std::optional<Straggler> find_straggler(std::span<const RankDump* const> dumps);
inline constexpr uint64_t kLeastOperations = 20;
inline constexpr double kLeastCost = 0.05;

}  // namespace banyan::run
