#include "banyan/plan/repair/direction.h"

#include <algorithm>

#include "banyan/plan/graph/switch_balance.h"

namespace banyan::plan {
namespace {

// Where more than one tree in so many would move in the least time, the longest is tried.
constexpr size_t kFewOf = 8;

}  // namespace

Direction::Direction(const OldPlan& old, bool gathering, PlanObserver* observer)
    : gathering_(gathering),
      network_(old.fabric, old.collective, gathering, observer),
      supply_(network_.terminal_count(), 0) {
  std::vector<uint32_t> arc_of(old.fabric.links().size());
  for (uint32_t a = 0; a < network_.arcs().size(); ++a) arc_of[index(network_.arcs()[a].link)] = a;
  // Each chunk is a tree of terminals and arcs as they are now. Lost ranks are left out; an edge out of one is gone,
  // and an edge over a link that is gone keeps the arcs that are still there.
  for (const size_t c : old.chunks) {
    const Chunk chunk = old.schedule.chunk(c);
    const auto edges = gathering ? chunk.in_tree : chunk.out_tree;
    TreeKeeper::Tree tree{
        .root = old.terminal_of[index(chunk.root)], .units = static_cast<int64_t>(chunk.units), .can_stay = true};
    supply_[tree.root] += tree.units;
    edges_.emplace_back();
    // Back to front, parents of an in-tree come first, too.
    for (size_t i = 0; i < edges.size(); ++i) {
      const size_t e = gathering ? edges.size() - 1 - i : i;
      const Route route = old.schedule.route(edges[e]);
      const NodeId parent = gathering ? route.to : route.from, child = gathering ? route.from : route.to;
      if (old.is_lost(child)) continue;
      tree.can_stay &= !old.is_lost(parent);
      if (old.is_lost(parent)) continue;
      PathEdge edge{
          .from = old.terminal_of[index(parent)], .to = old.terminal_of[index(child)], .arcs = {}, .origin = e};
      for (const LinkId link : route.links) {
        const auto now = old.links.now[index(link)];
        edge.is_gone |= !now;
        if (now) edge.arcs.push_back(arc_of[index(*now)]);
      }
      if (gathering) std::reverse(edge.arcs.begin(), edge.arcs.end());
      // A tree can stay only if no link of it is gone, and no rank that others hang on.
      tree.can_stay &= !edge.is_gone;
      tree.arcs.insert(tree.arcs.end(), edge.arcs.begin(), edge.arcs.end());
      edges_.back().push_back(std::move(edge));
    }
    trees_.push_back(std::move(tree));
  }
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

struct Direction::Patching {
  Outcome outcome;
  std::vector<int64_t> left, supply;  // for those that moved

  size_t moved() const { return static_cast<size_t>(std::ranges::count(outcome.fates, Fate::moved)); }
};

std::optional<Direction::Outcome> Direction::repair(const ArcCapacities& capacities, const Fraction& least,
                                                    const Fraction& most) const {
  // The trees that stay are chosen in the longest time; then the least time for these is tried.
  TreeKeeper keeper(network_, capacities, supply_, trees_);
  keeper.choose(most);
  std::optional<Patching> best = patch_in(keeper, keeper.least_time(least));
  // If many trees would move in that time, the longest may let more of them be patched.
  if (!best || kFewOf * best->moved() > trees_.size()) {
    auto longer = patch_in(keeper, most);
    if (longer && (!best || longer->moved() < best->moved())) best = std::move(longer);
  }
  if (!best || best->moved() == trees_.size() || !pack_rest(network_, *best)) return std::nullopt;
  return std::move(best->outcome);
}

std::optional<Direction::Patching> Direction::patch_in(const TreeKeeper& keeper, const Fraction& time) const {
  // The capacity that is left must be balanced at switches: patching and packing need that.
  std::vector<int64_t> left = keeper.capacity_left(time);
  if (balance_switches(network_, left, keeper.supply_left())) return std::nullopt;
  Outcome outcome{.fates = {}, .edges = edges_, .packing = {}};
  std::vector<BrokenTree> broken;
  for (size_t i = 0; i < trees_.size(); ++i) {
    // A tree that does not stay counts as moved until it has been patched.
    outcome.fates.push_back(keeper.stays()[i] ? Fate::stays : Fate::moved);
    if (!keeper.stays()[i]) broken.push_back({.root = trees_[i].root, .units = trees_[i].units, .edges = edges_[i]});
  }
  // All others are broken: some have lost edges, some only take too much.
  TreePatcher patcher(network_, std::move(left), keeper.supply_left());
  TreePatcher::Patched patched = patcher.patch(broken);
  for (size_t i = 0, b = 0; i < trees_.size(); ++i) {
    if (outcome.fates[i] == Fate::stays) continue;
    outcome.edges[i].clear();
    if (auto& edges = patched[b++]) {
      // A patched tree without new edges has stayed as it was.
      const bool is_whole = std::ranges::all_of(*edges, [](const PathEdge& edge) { return edge.origin != SIZE_MAX; });
      outcome.fates[i] = is_whole ? Fate::stays : Fate::patched;
      outcome.edges[i] = std::move(*edges);
    }
  }
  return Patching{.outcome = std::move(outcome), .left = patcher.left(), .supply = patcher.supply()};
}

// Whether what moved has been packed.
bool Direction::pack_rest(const Network& network, Patching& patching) {
  if (std::ranges::all_of(patching.supply, [](int64_t owed) { return owed == 0; })) return true;
  auto packing = pack_trees(network, patching.left, patching.supply, {.lower = false});
  if (packing) patching.outcome.packing = std::move(*packing);
  return packing.has_value();
}

}  // namespace banyan::plan
