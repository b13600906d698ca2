// Repair: a plan for a fabric that has changed, which keeps what the change does not touch.
//
// A link fails, slows down or comes back, or a rank is lost. Planning anew would reach the bound, but give most ranks
// other trees than they had: connections, buffers and what has been learnt about them would be lost. So trees of the
// old plan stay, with the bytes that they carry, unless they cross a link that is gone or staying would cost too much
// time (tree_keeper.h). Those are patched: the edges that cannot stay are replaced, the others stay (tree_patcher.h).
// Trees that cannot be patched are packed anew into the capacity that is left (plan/forest/packing.h).
//
// The time. Let f be 1 + most_cost or, if it is more, the old plan's time over its own bound: somebody wanted it so, a
// ring say. As many trees stay as can in f times the new bound; then the plan takes the least time that these allow,
// which is often the bound itself. If no tree stays and none is patched, or the repaired plan comes out slower than
// that and than a new one, the plan is made anew by plan_forest.
//
// The two directions of an allreduce are repaired apart, and their trees joined again into chunks. If both at once on
// shares of the links (plan/bound/overlap.h) are faster than one after the other, each is held to its share: that of
// the best new plan where the old roots can be kept with it, else that of the best plan with the old roots
// (plan/bound/wished_shares.h). If the best plan has other roots and the old ones cost more than allowed, as on fabrics
// with one-way links, all trees are planned anew.
//
// Links and nodes are matched by name (link_match.h). A rank that is gone is taken out of the trees in which it was a
// leaf; it cannot be the root of a broadcast or reduce. New ranks take no part. Pure: same input, same plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/repair/link_match.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

struct RepairOptions {
  Fraction most_cost = Fraction(1, 50);  // of the new bound
  PlanObserver* observer = nullptr;
};

struct Repair {
  Schedule schedule;
  Bound bound;  // of the changed fabric
  Fraction seconds_per_byte;
  bool optimal = false;  // seconds_per_byte <= bound.seconds_per_byte

  Fraction seconds_per_byte_before;  // of the old plan, on the fabric that it was made for
  std::vector<LinkChange> links = {};
  std::vector<std::string> lost_ranks = {};

  // Numbers of trees of the old plan; a chunk of an allreduce has two. Those of lost roots are not counted.
  uint64_t trees_kept = 0, trees_patched = 0, trees_moved = 0;
  uint64_t edges_of_patched = 0, edges_replaced = 0;  // of patched trees: all edges, and those that are new
  // Indexed by chunk of `schedule`: the chunk of the old plan whose trees and bytes it keeps. Empty when planned anew.
  std::vector<std::optional<size_t>> kept_from = {};
  bool planned_anew() const { return trees_kept + trees_patched == 0; }
};

// `old` must be right (schedule/verify.h). Throws Error{invalid_input} when the root of a broadcast or reduce is gone
// or fewer than two of its ranks are left, Error{unsupported} for an all-to-all, and what plan_forest throws.
Repair repair_plan(const Schedule& old, const Fabric& fabric, const RepairOptions& options = {});

}  // namespace banyan::plan
