// Repair: a plan for a fabric that has changed, which keeps what the change does not touch.
//
// A link fails, slows down or comes back, or a rank is lost. Planning anew would reach the bound, but give most ranks
// other trees than they had: connections, buffers and what has been learnt about them would be lost. So trees of the
// old plan stay, with the bytes that they carry, unless they cross a link that is gone or staying would cost too much
// time (tree_keeper.h). Those are patched: the edges that cannot stay are replaced, the others stay (tree_patcher.h).
// What cannot be patched is packed anew into what is left (plan/forest/packing.h).
//
// How much time. Let f be 1 + most_cost or, where it is more, how far the old plan was above its own bound: somebody
// wanted it so, a ring say. As many trees stay as can in f times the new bound; then the plan takes the least time that
// these allow, which is often the bound itself. Where neither any stays nor any is patched, or the repaired plan comes
// out slower than that and than a new one, the plan is made anew by plan_forest.
//
// The two directions of an allreduce are repaired apart: its in-trees and its out-trees, each within its own bound. A
// plan that overlaps them, and so beats the sum of the two bounds, keeps its own division of each link: what the old
// trees of a direction loaded, and half of what is free. It is held against a plan made anew.
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

  // Of the trees of the old plan; a chunk of an allreduce has two. Those of lost roots are not counted.
  uint64_t trees_kept = 0, trees_patched = 0, trees_moved = 0;
  uint64_t edges_of_patched = 0, edges_replaced = 0;  // of patched trees: all edges, and those that are new
  // By chunk of `schedule`: the chunk of the old plan whose trees and bytes it keeps. All are empty when planned anew.
  std::vector<std::optional<size_t>> kept_from = {};
  bool planned_anew() const { return trees_kept + trees_patched == 0; }
};

// `old` must be right (schedule/verify.h). Throws Error{invalid_input} when the root of a broadcast or reduce is gone
// or fewer than two of its ranks are left, Error{unsupported} for an all-to-all, and what plan_forest throws.
Repair repair_plan(const Schedule& old, const Fabric& fabric, const RepairOptions& options = {});

}  // namespace banyan::plan
