#include "banyan/plan/repair/direction.h"

#include <algorithm>

#include "banyan/plan/forest/capacities.h"

namespace banyan::plan {

std::optional<std::vector<uint32_t>> edges_left(const OldPlan& old, std::span<const RouteId> tree, bool gathering) {
  std::vector<uint32_t> edges;
  for (uint32_t e = 0; e < tree.size(); ++e) {
    const Route route = old.schedule.route(tree[e]);
    const NodeId parent = gathering ? route.to : route.from, child = gathering ? route.from : route.to;
    if (old.is_lost(child)) continue;
    if (old.is_lost(parent)) return std::nullopt;
    if (!std::ranges::all_of(route.links, [&](LinkId link) { return old.links.now[index(link)].has_value(); }))
      return std::nullopt;
    edges.push_back(e);
  }
  return edges;
}

Direction::Direction(const OldPlan& old, bool gathering, PlanObserver* observer)
    : gathering_(gathering),
      network_(old.fabric, old.collective, gathering, observer),
      supply_(network_.terminal_count(), 0) {
  std::vector<uint32_t> arc_of(old.fabric.links().size());
  for (uint32_t a = 0; a < network_.arcs().size(); ++a) arc_of[index(network_.arcs()[a].link)] = a;
  for (const size_t c : old.chunks) {
    const Chunk chunk = old.schedule.chunk(c);
    const auto& edges = gathering ? chunk.in_tree : chunk.out_tree;
    TreeKeeper::Tree tree{.root = old.terminal_of[index(chunk.root)], .units = static_cast<int64_t>(chunk.units)};
    supply_[tree.root] += tree.units;
    if (const auto left = edges_left(old, edges, gathering)) {
      tree.can_stay = true;
      for (const uint32_t e : *left) {
        for (const LinkId link : old.schedule.route(edges[e]).links)
          tree.arcs.push_back(arc_of[index(*old.links.now[index(link)])]);
      }
    }
    trees_.push_back(std::move(tree));
  }
}

std::vector<int64_t> Direction::loads(const OldPlan& old) const {
  std::vector<int64_t> by_link(old.fabric.links().size(), 0);
  for (const size_t c : old.chunks) {
    const Chunk chunk = old.schedule.chunk(c);
    for (const RouteId id : gathering_ ? chunk.in_tree : chunk.out_tree) {
      for (const LinkId link : old.schedule.route(id).links) {
        if (const auto now = old.links.now[index(link)]) by_link[index(*now)] += static_cast<int64_t>(chunk.units);
      }
    }
  }
  std::vector<int64_t> loads;
  for (const Arc& arc : network_.arcs()) loads.push_back(by_link[index(arc.link)]);
  return loads;
}

void Direction::set_scale(int64_t scale) {
  for (TreeKeeper::Tree& tree : trees_) tree.units *= scale;
  for (int64_t& owed : supply_) owed *= scale;
}

bool Direction::suffices(const ArcCapacities& capacities, const Fraction& time, int64_t scale) const {
  std::vector<int64_t> supply = supply_;
  for (int64_t& owed : supply) owed *= scale;
  return !CutCondition(network_).find_violated({.capacity = capacities.at(time), .supply = supply});
}

std::optional<Direction::Outcome> Direction::repair(const ArcCapacities& capacities, const Fraction& least,
                                                    const Fraction& most) const {
  TreeKeeper keeper(network_, capacities, supply_, trees_);
  keeper.choose(most);
  if (std::ranges::none_of(keeper.stays(), [](uint8_t stays) { return stays != 0; })) return std::nullopt;
  const std::vector<int64_t>& owed = keeper.supply_left();
  const bool all_stay = std::ranges::all_of(owed, [](int64_t units) { return units == 0; });
  for (const Fraction& time : {keeper.least_time(least), most}) {
    std::vector<int64_t> left = keeper.capacity_left(time);
    if (all_stay) return Outcome{.stays = keeper.stays(), .packing = {}, .time = time};
    if (!balance_switches(network_, left, owed)) continue;
    auto packing = pack_trees(network_, left, owed, {.lower = false});
    if (packing) return Outcome{.stays = keeper.stays(), .packing = std::move(*packing), .time = time};
  }
  return std::nullopt;
}

}  // namespace banyan::plan
