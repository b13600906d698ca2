// Which lossy cables of a Clos to disable: those that lose most, while every rank keeps its share of the ways up.
//
// This is CorrOpt's optimizer (SIGCOMM 2017, section 5.2; the problem is NP-complete): first what cannot conflict is
// settled. Cables of which each alone takes too much stay. With all others disabled, ranks that still have enough ways
// bind nothing, and cables that are above no other rank are disabled. The rest falls into parts that share
// no rank. In each part:
//   - Ranks with the same ways up are one constraint.
//   - Of the cables above one constraint alone, those of its lowest tier take ways away independently of each
//     other, once all above are decided: a knapsack for each constraint.
//   - The others are decided by branch and bound, the highest tier first. Of cables that lead from one switch to
//     switches with equally many ways that nothing can change, those that lose more are disabled first.
//     The bound takes the best fractional knapsack of any one constraint over what is undecided.
// Exact, unless it takes more than kMaxWork: then the best that was found, and how much more there might be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/health/up_paths.h"

namespace banyan::health {

struct LossyCable {
  uint32_t cable = 0;
  double loss = 0;  // of both directions together, above 0
};

struct Choice {
  std::vector<uint32_t> disabled;  // cables, ascending
  double loss = 0;                 // of those
  double most = 0;                 // no choice disables more loss
  bool is_exact = true;
};

// The ways that a rank must keep of what it had at first.
uint64_t ways_needed(uint64_t at_first, const Fraction& share);

// Whether this cable can be disabled now: microseconds to a millisecond. `paths` is as before afterwards.
bool may_disable(UpPaths& paths, uint32_t cable, const Fraction& share);

// `share` is above 0 and at most 1. All cables of `paths` are enabled, before and after.
Choice choose_cables(const Fabric& fabric, UpPaths& paths, std::span<const LossyCable> lossy, const Fraction& share);

}  // namespace banyan::health
