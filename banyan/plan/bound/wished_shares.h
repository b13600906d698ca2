// Shares of an allreduce that leave what there is where it is: for given roots, as little below given loads as can be.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/bound/overlap.h"

namespace banyan::plan {

struct WishedShares {
  std::vector<int64_t> supply;          // by terminal, in any unit
  std::vector<int64_t> gather, spread;  // by arc: loads, in that unit for all that the supply counts
  Fraction room = Fraction(1);          // loads may grow as if all took so many times as long
};

// Shares for roots in proportion to the supply that reach `seconds_per_byte`, but for rounding; among these, the shares
// that loads exceed by the least sum. Nothing where no such roots do, or where the search was given up. Throws as
// solve_overlap.
std::optional<OverlapShares> shares_for(const Fabric& fabric, const Collective& collective,
                                        const Fraction& seconds_per_byte, const WishedShares& wish,
                                        PlanObserver* observer = nullptr);

}  // namespace banyan::plan
