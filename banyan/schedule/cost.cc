#include "banyan/schedule/cost.h"

#include <algorithm>

namespace banyan::schedule {
namespace {

// Depth of the deepest edge; `in_tree` lists are walked back to front, where parents come first.
uint32_t height(const Schedule& schedule, std::span<const RouteId> tree, bool in_tree, std::vector<uint32_t>& depth) {
  uint32_t highest = 0;
  for (size_t i = 0; i < tree.size(); ++i) {
    const Route route = schedule.route(in_tree ? tree[tree.size() - 1 - i] : tree[i]);
    const NodeId parent = in_tree ? route.to : route.from, child = in_tree ? route.from : route.to;
    depth[index(child)] = depth[index(parent)] + 1;
    highest = std::max(highest, depth[index(child)]);
  }
  return highest;
}

// Units are at most 2^62, but a chunk may cross a link many times. Sums by route wrap round, which is booked at once:
// there can be many more routes than links.
std::vector<int128> exact_loads(const Schedule& schedule) {
  std::vector<int128> loads(schedule.fabric().links().size(), 0);
  const auto book = [&](uint32_t route, int128 units) {
    for (const LinkId link : schedule.route(RouteId{route}).links) loads[index(link)] += units;
  };
  std::vector<uint64_t> route_units(schedule.route_count(), 0);
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (const std::span tree : {chunk.in_tree, chunk.out_tree}) {
      for (const RouteId id : tree) {
        uint64_t& sum = route_units[index(id)];
        if (__builtin_add_overflow(sum, chunk.units, &sum)) book(index(id), int128{1} << 64);
      }
    }
  }
  for (uint32_t r = 0; r < route_units.size(); ++r) book(r, static_cast<int128>(route_units[r]));
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
  return worst / Fraction(static_cast<int128>(schedule.total_units()), 1);
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
