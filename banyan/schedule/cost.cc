#include "banyan/schedule/cost.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace banyan::schedule {
namespace {

// Depth of the deepest edge; `in_tree` lists are walked back to front, where parents come first.
uint32_t height(const Schedule& schedule, std::span<const RouteId> tree, bool in_tree, std::vector<uint32_t>& depth) {
  uint32_t highest = 0;
  for (size_t i = 0; i < tree.size(); ++i) {
    const Route route = schedule.route(in_tree ? tree[tree.size() - 1 - i] : tree[i]);
    const NodeId parent = in_tree ? route.to : route.from, child = in_tree ? route.from : route.to;
    // A switch adds no message of its own: what it multicasts or reduces is on its way.
    const NodeId sends_to = in_tree ? parent : child;
    depth[index(child)] = depth[index(parent)] + (schedule.fabric().is_rank(sends_to) ? 1 : 0);
    highest = std::max(highest, depth[index(child)]);
  }
  return highest;
}

// Units are at most 2^62, but a chunk may cross a link many times.
std::vector<int128> exact_loads(const Schedule& schedule) {
  std::vector<int128> route_units(schedule.route_count(), 0);
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (const RouteId id : chunk.in_tree) route_units[index(id)] += chunk.units;
    for (const RouteId id : chunk.out_tree) route_units[index(id)] += chunk.units;
  }
  std::vector<int128> loads(schedule.fabric().links().size(), 0);
  for (uint32_t r = 0; r < route_units.size(); ++r) {
    for (const LinkId link : schedule.route(RouteId{r}).links) loads[index(link)] += route_units[r];
  }
  return loads;
}

}  // namespace

std::vector<uint64_t> link_loads(const Schedule& schedule) {
  std::vector<uint64_t> loads;
  for (const int128 load : exact_loads(schedule)) loads.push_back(static_cast<uint64_t>(load));
  return loads;
}

Fraction seconds_per_byte(const Schedule& schedule) {
  const std::vector<int128> loads = exact_loads(schedule);
  Fraction worst(0);
  for (uint32_t i = 0; i < loads.size(); ++i) {
    worst = std::max(worst, Fraction(loads[i], schedule.fabric().link(LinkId{i}).bandwidth.bytes_per_second()));
  }
  return worst / Fraction(static_cast<int128>(schedule.total_units()), 1) * schedule.collective().carried_per_byte();
}

Heights heights(const Schedule& schedule) {
  Heights result;
  double weighted = 0;
  std::vector<uint32_t> depth(schedule.fabric().nodes().size(), 0);
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    depth[index(chunk.root)] = 0;
    uint32_t total = height(schedule, chunk.in_tree, true, depth);
    depth[index(chunk.root)] = 0;
    total += height(schedule, chunk.out_tree, false, depth);
    result.max = std::max(result.max, total);
    weighted += static_cast<double>(total) * static_cast<double>(chunk.units);
  }
  result.mean = weighted / static_cast<double>(schedule.total_units());
  return result;
}

MessageCounts message_counts(const Schedule& schedule) {
  MessageCounts counts{.rounds = heights(schedule).max};
  std::vector<uint64_t> sent(schedule.fabric().nodes().size(), 0);
  std::set<std::tuple<bool, NodeId, NodeId, uint32_t>> ties;
  uint32_t last_step = 0;
  const auto count = [&](bool is_in, std::span<const RouteId> tree, std::span<const uint32_t> steps) {
    for (size_t e = 0; e < tree.size(); ++e) {
      const Route route = schedule.route(tree[e]);
      const uint32_t step = steps.empty() ? 0 : steps[e];
      last_step = std::max(last_step, step);
      if (step == 0 || ties.emplace(is_in, route.from, route.to, step).second) ++sent[index(route.from)];
    }
  };
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    count(true, chunk.in_tree, chunk.in_steps);
    count(false, chunk.out_tree, chunk.out_steps);
  }
  for (const NodeId id : schedule.collective().participants())
    counts.most_of_a_rank = std::max(counts.most_of_a_rank, sent[index(id)]);
  if (last_step > 0) counts.rounds = last_step;
  return counts;
}

double estimate_seconds(const Schedule& schedule, Bytes total, AlphaBeta model) {
  Picoseconds latency{0};
  for (uint32_t r = 0; r < schedule.route_count(); ++r) {
    Picoseconds along{0};
    for (const LinkId link : schedule.route(RouteId{r}).links) along += schedule.fabric().link(link).latency;
    latency = std::max(latency, along);
  }
  const double per_hop = std::chrono::duration<double>(latency + model.per_message).count();
  return heights(schedule).max * per_hop + static_cast<double>(total.count()) * seconds_per_byte(schedule).to_double();
}

}  // namespace banyan::schedule
