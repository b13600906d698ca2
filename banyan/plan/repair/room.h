// The room on the links while an old plan is repaired: the time in which everything that it moves could be packed anew.
//
// One direction has a time on the whole links, or on the part of them that trees can use if switches cannot be balanced
// otherwise (plan/bound/balanced_links.h). An allreduce has two directions, and two choices: one after the other, each
// on the whole links; or both at once, each on its share of them (plan/bound/overlap.h). Shares are for roots of their
// own; in time w/s they suffice for a plan whose ranks root w where they root s at least.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/bound/overlap.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct Room {
  std::vector<int64_t> rates;  // by arc: units in one unit of time
  Fraction time;               // of all the old plan, in its units
};

// The room of each direction, gathering before spreading.
struct Rooms {
  std::vector<Room> rooms;
  Fraction seconds_per_byte;  // of all directions together, when each takes its time
};

// `total`: units of the old plan.
Rooms whole_links(const Fabric& fabric, const Collective& collective, int64_t total, PlanObserver* observer);

// `supply`: what the ranks root in the old plan. Nothing where some rank that roots anything has no share for it.
std::optional<Rooms> on_shares(const Network& network, const OverlapShares& shares, std::span<const int64_t> supply);

}  // namespace banyan::plan
