// Chooses lossy cables of a Clos to disable: those that lose most, while every rank keeps its share of the paths up.
//
// This is CorrOpt's optimizer (SIGCOMM 2017, section 5.2; the problem is NP-complete): first what cannot conflict is
// settled. A cable that alone takes too much from some rank stays. With all others disabled, ranks that still have
// enough paths bind nothing, and cables that are above no other rank are disabled. The rest falls into parts that share
// no rank. In each part:
//   - Ranks with the same paths up are one constraint.
//   - The lowest cables above one constraint alone take paths away independently of each other, once all above them are
//     decided: a knapsack for each constraint.
//   - The others are decided by branch and bound, the highest tier first. Cables from one switch to switches with
//     equally many paths, which nothing can change, are disabled in the order of their loss, the largest first. The
//     bound takes the best fractional knapsack of any one constraint over what is undecided.
// Exact, unless it takes more than kMaxWork: then the best that was found, and how much more there might be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/design/up_paths.h"

namespace banyan::design {

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

// The number of paths up that a rank must keep of the `at_first` that it had.
uint64_t ways_needed(uint64_t at_first, const Fraction& share);

// True if this cable can be disabled now. Takes microseconds to a millisecond; `paths` is afterwards as before.
bool may_disable(UpPaths& paths, uint32_t cable, const Fraction& share);

// `share` is above 0 and at most 1. All cables of `paths` are enabled, before and after.
Choice choose_cables(const Fabric& fabric, UpPaths& paths, std::span<const LossyCable> lossy, const Fraction& share);

}  // namespace banyan::design
