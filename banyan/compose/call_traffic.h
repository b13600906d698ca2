// The bytes that one call moves over each link of a network, by counting.
//
// Calls that have a plan go along its trees. All others go straight from rank to rank, where the network sends them:
// they are taken to go along shortest paths. As in networks with equal-cost multipath, traffic at a node leaves it in
// equal parts by all links that begin a shortest path, whatever their bandwidth. Paths pass through switches only; if
// there is no such path (tori), through other ranks, too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/run/execute/plan_source.h"

namespace banyan::compose {

// The question by which NetPlans asks for the plan of a call among so many ranks; none for calls that follow no plan,
// and for those that move nothing. `plans_all_to_all` is that of the PlanSource.
std::optional<run::PlanSource::Question> question_of(const run::Call& call, uint32_t ranks, bool plans_all_to_all);

// Bytes by link of the schedule's fabric, for a call of rank `own` that follows it. Blocks of different sizes
// (all-gather-v, reduce-scatter-v) go along the trees of their ranks, those of an all-to-all-v, taken as below, along
// the paths of their pairs. O(edges + links of all routes + chunks + links).
std::vector<double> bytes_by_plan(const run::Call& call, const Schedule& schedule, uint32_t own);

struct DirectCall {
  const run::Call& call;
  uint32_t own = 0;                   // the rank that makes it
  std::span<const NodeId> places;     // by rank: a rank of the fabric; several may have the same
  std::function<bool(LinkId)> works;  // whether a link carries anything
};
// Bytes by link of the fabric, for a call without a plan; traffic without a path is left out. A rank knows its own
// counts only. So in an all-to-all-v all others are taken to send each rank what this one sends it; this rank gets what
// its call says. A receive from any rank counts as nothing, since its sender is not known before the message comes:
// only the sender counts it. O(receivers * (nodes + links) + pairs of ranks between which something goes).
std::vector<double> bytes_by_shortest_ways(const Fabric& fabric, const DirectCall& direct);

// The bytes that one node sends another.
struct NodeFlow {
  NodeId from{}, to{};
  double bytes = 0;
};
// The same for any flows, those to one node after the other; all links work.
std::vector<double> bytes_by_shortest_ways(const Fabric& fabric, std::span<const NodeFlow> flows);

}  // namespace banyan::compose
