#include "banyan/plan/spread_routes.h"

#include <map>
#include <utility>
#include <vector>

#include "banyan/fabric/links.h"
#include "banyan/fabric/shortest_paths.h"
#include "banyan/plan/route_assignment.h"

namespace banyan::plan {
namespace {

using LinkPath = std::vector<LinkId>;

// The paths between two ranks through switches only that have so many links.
class Paths {
 public:
  explicit Paths(const Fabric& fabric) : fabric_(fabric), shortest_(fabric) {}

  const std::vector<LinkPath>& of(NodeId from, NodeId to, size_t length) {
    const auto [found, is_new] = known_.try_emplace({from, to, length});
    if (is_new) {
      shortest_.search(to, {.most_hops = static_cast<uint32_t>(length - 1)});
      LinkPath path;
      walk(from, length, path, found->second);
    }
    return found->second;
  }

 private:
  // Finds the paths that go on from a node to the end of the search.
  void walk(NodeId at, size_t left, LinkPath& path, std::vector<LinkPath>& found) const {
    for (const LinkId link : fabric_.out_links(at)) {
      const NodeId next = fabric_.link(link).to;
      if (found.size() == kMostPaths || shortest_.hops(next) != left - 1 || !shortest_.may_pass(next)) continue;
      path.push_back(link);
      if (left == 1) {
        found.push_back(path);
      } else {
        walk(next, left - 1, path, found);
      }
      path.pop_back();
    }
  }

  struct Key {
    NodeId from{}, to{};
    size_t length = 0;
    auto operator<=>(const Key&) const = default;
  };
  const Fabric& fabric_;
  std::map<Key, std::vector<LinkPath>> known_;
  fabric::ShortestPaths shortest_;  // to the end of the last one
};

// All that one rank sends to another by paths of one length.
struct Pair {
  NodeId from{}, to{};
  size_t length = 0;
  auto operator<=>(const Pair&) const = default;
};
Pair pair_of(const Route& route) { return {route.from, route.to, route.links.size()}; }

template <typename Act>
void for_each_edge(const Schedule& schedule, const Act& act) {
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (const RouteId id : chunk.in_tree) act(chunk, schedule.route(id));
    for (const RouteId id : chunk.out_tree) act(chunk, schedule.route(id));
  }
}

// The paths of each channel, by pair, and the loads of links with them, in units of the schedule.
struct Spread {
  uint32_t channels = 1;
  std::map<Pair, std::vector<LinkPath>> paths = {};
  std::vector<double> loads = {};
};

Spread spread_over(uint32_t channels, const std::map<Pair, std::vector<LinkPath>>& paths,
                   const std::map<Pair, double>& units, std::span<const double> bandwidths) {
  std::vector<RoutedFlow> flows;
  for (const auto& [pair, choice] : paths) {
    RoutedFlow flow{.demand = units.at(pair) / channels, .routes = {}};
    for (const LinkPath& path : choice) {
      std::vector<uint32_t>& links = flow.routes.emplace_back();
      for (const LinkId link : path) links.push_back(index(link));
    }
    flows.insert(flows.end(), channels, flow);
  }
  const std::vector<uint32_t> taken = assign_routes(bandwidths, flows);
  Spread spread{.channels = channels, .loads = route_loads(bandwidths, flows, taken)};
  size_t flow = 0;
  for (const auto& [pair, choice] : paths) {
    for (uint32_t channel = 0; channel < channels; ++channel) spread.paths[pair].push_back(choice[taken[flow++]]);
  }
  return spread;
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

Schedule divided(const Schedule& schedule, const Spread& spread) {
  Schedule::Builder builder(schedule.fabric(), schedule.collective());
  std::map<LinkPath, RouteId> known;
  const auto routes_of = [&](std::span<const RouteId> tree, uint32_t channel) {
    std::vector<RouteId> routes;
    for (const RouteId id : tree) {
      const LinkPath& path = spread.paths.at(pair_of(schedule.route(id)))[channel];
      auto found = known.find(path);
      if (found == known.end()) found = known.emplace(path, builder.add_route(path)).first;
      routes.push_back(found->second);
    }
    return routes;
  };
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (uint32_t channel = 0; channel < spread.channels; ++channel) {
      const std::vector<RouteId> in_tree = routes_of(chunk.in_tree, channel),
                                 out_tree = routes_of(chunk.out_tree, channel);
      builder.add_chunk({.root = chunk.root, .units = chunk.units, .in_tree = in_tree, .out_tree = out_tree});
    }
  }
  return std::move(builder).build();
}

}  // namespace

Schedule spread_routes(Schedule schedule) {
  if (!may_be_spread(schedule)) return schedule;
  const std::vector<double> bandwidths = fabric::link_bandwidths(schedule.fabric());
  Paths known(schedule.fabric());
  std::map<Pair, std::vector<LinkPath>> paths;
  std::map<Pair, double> units;
  std::vector<double> present(bandwidths.size(), 0);
  bool have_choice = false;
  for_each_edge(schedule, [&](const Chunk& chunk, const Route& route) {
    const Pair pair = pair_of(route);
    units[pair] += static_cast<double>(chunk.units);
    for (const LinkId link : route.links)
      present[index(link)] += static_cast<double>(chunk.units) / bandwidths[index(link)];
    if (const auto [own, is_new] = paths.try_emplace(pair); is_new) {
      own->second = known.of(pair.from, pair.to, pair.length);
      have_choice = have_choice || own->second.size() > 1;
    }
  });
  if (!have_choice) return schedule;
  Spread best{.loads = present};
  for (uint32_t channels = 1; channels <= kMostChannels; ++channels) {
    Spread spread = spread_over(channels, paths, units, bandwidths);
    if (are_less(spread.loads, best.loads)) best = std::move(spread);
  }
  return best.paths.empty() ? std::move(schedule) : divided(schedule, best);
}

}  // namespace banyan::plan
