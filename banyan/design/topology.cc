#include "banyan/design/topology.h"

#include <algorithm>
#include <set>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/design/topology_candidates.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/direct/bfb.h"
#include "banyan/plan/flow/all_to_all.h"
#include "banyan/schedule/verify.h"

namespace banyan::design {
namespace {

constexpr uint64_t kLinkRate = 1'000'000'000;  // any will do: times are told in units of it

void check_search(const TopologySearch& search) {
  if (search.ranks < 2 || search.ranks > TopologySearch::kMostRanks) {
    throw invalid("a topology of " + std::to_string(search.ranks) + " ranks is not looked for, but one of 2 to " +
                  std::to_string(TopologySearch::kMostRanks));
  }
  if (search.degree < 1 || search.degree > TopologySearch::kMostDegree || search.degree >= search.ranks) {
    const uint64_t most = std::min(TopologySearch::kMostDegree, search.ranks - 1);
    throw invalid("a degree of " + std::to_string(search.degree) + " is not looked for, but one of 1 to " +
                  std::to_string(most) + " for " + std::to_string(search.ranks) + " ranks");
  }
}

bool has_cables_only(const Fabric& fabric) {
  std::multiset<std::pair<NodeId, NodeId>> links;
  for (const Link& link : fabric.links()) links.emplace(link.from, link.to);
  return std::ranges::all_of(links, [&](const auto& link) {
    return links.count(link) == links.count({link.second, link.first});
  });
}

Fabric fabric_of(const std::string& spec) {
  return fabric::generate_fabric(spec + "@" + Bandwidth::bytes_per_second(kLinkRate).to_string());
}

// The graph itself, what a breadth-first broadcast costs on it, and the verdict on the allreduce.
Topology built(const TopologyCandidate& candidate, const TopologySearch& search) {
  const Fabric fabric = fabric_of(candidate.spec);
  CHECK_EQ(fabric.ranks().size(), search.ranks) << candidate.spec;
  Topology topology{.spec = candidate.spec};
  const Fraction unit(static_cast<int128>(search.degree * kLinkRate), 1);
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    const plan::BfbCost cost = plan::bfb_cost(fabric, Collective::make(fabric, {.kind = kind}), search.observer);
    topology.steps = std::max(topology.steps, static_cast<uint32_t>(cost.steps.size()));
    topology.time = std::max(topology.time, cost.seconds_per_byte() * unit);
  }
  topology.all_to_all = hop_bound_of_all_to_all(fabric);
  topology.in_cables = has_cables_only(fabric);
  if (search.ranks <= TopologySearch::kMostVerified) {
    const Collective allreduce = Collective::make(fabric, {.kind = CollectiveKind::all_reduce});
    const schedule::Verdict verdict = verify(plan::plan_bfb(fabric, allreduce, search.observer).schedule);
    CHECK(verdict.valid) << "the verifier rejects the allreduce on " << candidate.spec << ": " << verdict.reason;
    topology.verified = true;
  }
  return topology;
}

}  // namespace

Topologies find_topologies(const TopologySearch& search) {
  check_search(search);
  Topologies found{.rows = {},
                   .least_steps = moore_steps(search.ranks, search.degree, search.cables),
                   .least_time = Fraction(static_cast<int128>(search.ranks) - 1, static_cast<int128>(search.ranks))};
  // The candidates come by rules; each graph is then built and measured.
  TopologyCandidates candidates(search.cables, search.observer);
  for (const TopologyCandidate& candidate : candidates.all(search.ranks, search.degree))
    found.rows.push_back(built(candidate, search));
  if (found.rows.empty()) {
    throw Error(ErrorCode::unsupported, "no topology of " + std::to_string(search.ranks) + " ranks with " +
                                            std::to_string(search.degree) + " cables each is known");
  }
  std::ranges::stable_sort(found.rows, {},
                           [](const Topology& a) { return std::tuple(a.steps, a.time, a.spec.size()); });
  // Rows ascend by steps, so a row is on the frontier if it takes less time than all before it.
  const Topology* best = nullptr;
  for (Topology& row : found.rows) {
    row.on_frontier = best == nullptr || row.time < best->time;
    if (!row.on_frontier) continue;
    best = &row;
    if (search.ranks <= TopologySearch::kMostWithPaths)
      row.all_to_all = all_to_all_rate(fabric_of(row.spec), search.observer);
  }
  return found;
}

uint32_t moore_steps(uint64_t ranks, uint64_t degree, bool cables) {
  if (degree == 1) return static_cast<uint32_t>(cables ? 1 : ranks - 1);
  const uint64_t grows = cables ? degree - 1 : degree;
  uint32_t steps = 0;
  for (uint64_t reached = 1, more = degree; reached < ranks; more *= grows) {
    reached += more;
    ++steps;
  }
  return steps;
}

AllToAllRate hop_bound_of_all_to_all(const Fabric& fabric) {
  CHECK_EQ(fabric.nodes().size(), fabric.ranks().size());
  uint64_t hops = 0;
  std::vector<uint32_t> distance;
  std::vector<NodeId> order;
  for (const NodeId start : fabric.ranks()) {
    // Every byte crosses at least the hops between its ends, and all links together carry so many hops in a second.
    distance.assign(fabric.nodes().size(), UINT32_MAX);
    distance[index(start)] = 0;
    order.assign(1, start);
    for (size_t i = 0; i < order.size(); ++i) {
      hops += distance[index(order[i])];
      for (const LinkId link : fabric.out_links(order[i])) {
        const NodeId to = fabric.link(link).to;
        if (distance[index(to)] != UINT32_MAX) continue;
        distance[index(to)] = distance[index(order[i])] + 1;
        order.push_back(to);
      }
    }
  }
  return {.per_pair = Fraction(static_cast<int128>(fabric.links().size()), static_cast<int128>(hops)),
          .is_bound = true};
}

AllToAllRate all_to_all_rate(const Fabric& fabric, plan::PlanObserver* observer) {
  const Collective all_to_all = Collective::make(fabric, {.kind = CollectiveKind::all_to_all});
  const plan::FlowPlan plan = plan::plan_all_to_all(fabric, all_to_all, {.observer = observer});
  const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
  CHECK(verdict.valid) << "the verifier rejects an all-to-all: " << verdict.reason;
  // A pair has the part 1 / ranks of M.
  const auto ranks = static_cast<int64_t>(fabric.ranks().size());
  const auto rate = static_cast<int64_t>(fabric.links().front().bandwidth.bytes_per_second());
  return {.per_pair = Fraction(1) / (plan.seconds_per_byte * Fraction(ranks) * Fraction(rate)), .is_bound = false};
}

}  // namespace banyan::design
