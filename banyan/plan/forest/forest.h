// The forest planner: trees that reach the bound exactly, and are low.
//
// The problem. Given the bound 1/x* = p/q, capacities become integers U * b_e and every participant roots k * weight
// trees (ForestColl, arXiv 2402.06787, section 5). The trees must span the participants, never overload a link, and sum
// to exactly the bound. See forest.cc for the method, which differs from the published one: no switch is ever removed;
// trees grow whole, straight through the switches, breadth first so that they stay low, and each commitment is checked
// against the cut condition that guarantees the rest can still be packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

struct ForestOptions {
  // Trees per unit of weight (per rank for equal shards). Absent: as many as the optimum needs.
  std::optional<uint64_t> trees = {};
  // No tree higher than this (an allreduce chunk: in-tree and out-tree each). Absent: optimal throughput, as low as
  // found.
  std::optional<uint32_t> max_height = {};
  // True: tall trees are taken out at the end and grown anew, lower; the longest part if it is needed at all. With
  // `max_height` they are in any case, and `lower` makes the search a long one.
  bool lower = true;
  PlanObserver* observer = nullptr;
};

// An allreduce sums and spreads at the same time (plan/bound/overlap.h) where that is faster than a reduce-scatter and
// then an allgather. With `trees` or `max_height` it is planned as these two.
//
// Trees branch at switches that multicast or reduce where that is faster: all at the same switches if that reaches the
// bound, else as the prices of links say (priced_trees.h). So they do, and are found, where a switch gives out other
// than it takes in and the trees of the bound need not exist; and of a broadcast or reduce where that makes them lower.
// Not with `trees` or `max_height`.
struct ForestPlan {
  Schedule schedule;
  Bound bound;
  Fraction seconds_per_byte;  // by the most loaded link; equals bound when optimal
  bool optimal = false;       // seconds_per_byte <= bound.seconds_per_byte, compared as fractions
  // With `trees`, or where bandwidths have too little in common for exact shares to be counted in 64 bits, and not
  // optimal: the most, in seconds per byte, that the best plan of so many trees can need above the bound (ForestColl,
  // section 5.5). Zero otherwise.
  Fraction guaranteed_excess;
  // An allreduce: the search for shares that overlap was given up (overlap.h), and this is a reduce-scatter and then an
  // allgather, which need not be the best.
  bool gave_up_overlap = false;
  // Switches multicast, reduce or give out other than they take in, and this is not optimal: perhaps no trees reach the
  // bound, perhaps better ones exist.
  bool is_optimum_unknown = false;
};

// No trees of this collective are lower, whatever they cost, and trees as low as that exist. O(ranks * links).
uint32_t least_tree_height(const Fabric& fabric, const Collective& collective);

// Throws what compute_bound throws; Error{unsupported} when the inputs and outputs of a switch differ so that the
// bound's trees need not exist and no others are found, naming the switch; Error{invalid_input} when max_height
// is below what the fabric allows.
ForestPlan plan_forest(const Fabric& fabric, const Collective& collective, const ForestOptions& options = {});

}  // namespace banyan::plan
