#include "banyan/plan/spread_routes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "banyan/plan/route_assignment.h"

namespace banyan::plan {
namespace {

using Way = std::vector<LinkId>;

// The ways between two ranks through switches only that have so many links.
class Ways {
 public:
  explicit Ways(const Fabric& fabric) : fabric_(fabric) {}

  const std::vector<Way>& of(NodeId from, NodeId to, size_t length) {
    const auto [found, is_new] = known_.try_emplace({from, to, length});
    if (is_new) {
      measure(to, length);
      Way way;
      walk(from, to, length, way, found->second);
    }
    return found->second;
  }

 private:
  // How many links lead from each node to `to`, as far as that is less than `most`.
  void measure(NodeId to, size_t most) {
    distance_.assign(fabric_.nodes().size(), SIZE_MAX);
    distance_[index(to)] = 0;
    std::deque<NodeId> waiting{to};
    while (!waiting.empty()) {
      const NodeId node = waiting.front();
      waiting.pop_front();
      if (distance_[index(node)] + 1 >= most) continue;
      for (const LinkId link : fabric_.in_links(node)) {
        const NodeId before = fabric_.link(link).from;
        if (fabric_.is_rank(before) || distance_[index(before)] != SIZE_MAX) continue;
        distance_[index(before)] = distance_[index(node)] + 1;
        waiting.push_back(before);
      }
    }
  }

  void walk(NodeId at, NodeId to, size_t left, Way& way, std::vector<Way>& found) const {
    for (const LinkId link : fabric_.out_links(at)) {
      const NodeId next = fabric_.link(link).to;
      if (found.size() == kMostWays || distance_[index(next)] != left - 1) continue;
      way.push_back(link);
      if (next == to) {
        found.push_back(way);
      } else {
        walk(next, to, left - 1, way, found);
      }
      way.pop_back();
    }
  }

  struct Key {
    NodeId from{}, to{};
    size_t length = 0;
    auto operator<=>(const Key&) const = default;
  };
  const Fabric& fabric_;
  std::map<Key, std::vector<Way>> known_;
  std::vector<size_t> distance_;  // scratch
};

// What a schedule moves, edge by edge, and the number of the route that each edge has at present.
struct Flows {
  std::vector<RoutedFlow> flows;
  std::vector<uint32_t> present;
  bool have_choice = false;
};

Flows flows_of(const Schedule& schedule) {
  Ways ways(schedule.fabric());
  Flows found;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (const auto& tree : {chunk.in_tree, chunk.out_tree}) {
      for (const RouteId id : tree) {
        const Route route = schedule.route(id);
        RoutedFlow flow{.demand = static_cast<double>(chunk.units), .routes = {}};
        for (const Way& way : ways.of(route.from, route.to, route.links.size())) {
          std::vector<uint32_t>& links = flow.routes.emplace_back();
          for (const LinkId link : way) links.push_back(index(link));
        }
        // There may be more ways than are looked at.
        std::vector<uint32_t> present;
        for (const LinkId link : route.links) present.push_back(index(link));
        const auto same = std::find(flow.routes.begin(), flow.routes.end(), present);
        found.present.push_back(static_cast<uint32_t>(same - flow.routes.begin()));
        if (same == flow.routes.end()) flow.routes.push_back(std::move(present));
        found.have_choice = found.have_choice || flow.routes.size() > 1;
        found.flows.push_back(std::move(flow));
      }
    }
  }
  return found;
}

bool may_be_spread(const Schedule& schedule) {
  size_t edges = 0;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    edges += chunk.in_tree.size() + chunk.out_tree.size();
    if (!chunk.in_steps.empty() || !chunk.out_steps.empty() || edges > kMostEdges) return false;
  }
  return true;
}

Schedule with_routes(const Schedule& schedule, const std::vector<RoutedFlow>& flows,
                     const std::vector<uint32_t>& taken) {
  Schedule::Builder builder(schedule.fabric(), schedule.collective());
  std::map<std::vector<uint32_t>, RouteId> known;
  size_t flow = 0;
  const auto routes_of = [&](std::span<const RouteId> tree) {
    std::vector<RouteId> routes;
    for (size_t edge = 0; edge < tree.size(); ++edge, ++flow) {
      const std::vector<uint32_t>& links = flows[flow].routes[taken[flow]];
      auto found = known.find(links);
      if (found == known.end()) {
        Way way;
        for (const uint32_t link : links) way.push_back(LinkId{link});
        found = known.emplace(links, builder.add_route(way)).first;
      }
      routes.push_back(found->second);
    }
    return routes;
  };
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    const std::vector<RouteId> in_tree = routes_of(chunk.in_tree), out_tree = routes_of(chunk.out_tree);
    builder.add_chunk({.root = chunk.root, .units = chunk.units, .in_tree = in_tree, .out_tree = out_tree});
  }
  return std::move(builder).build();
}

}  // namespace

Schedule spread_routes(Schedule schedule) {
  if (!may_be_spread(schedule)) return schedule;
  const auto [flows, present, have_choice] = flows_of(schedule);
  if (!have_choice) return schedule;
  std::vector<double> bandwidths;
  for (const Link& link : schedule.fabric().links()) {
    bandwidths.push_back(static_cast<double>(link.bandwidth.bytes_per_second()));
  }
  const std::vector<uint32_t> taken = assign_routes(bandwidths, flows);
  const bool is_better = are_less(route_loads(bandwidths, flows, taken), route_loads(bandwidths, flows, present));
  return is_better ? with_routes(schedule, flows, taken) : std::move(schedule);
}

}  // namespace banyan::plan
