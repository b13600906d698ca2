#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "banyan/base/check.h"
#include "banyan/testing/schedule_draft.h"

namespace banyan::testing {
namespace {

// Grows random trees over the participants, with routes found by searches that enter switches only. Switches that have
// the power for it may be nodes of trees.
class Gardener {
 public:
  Gardener(ScheduleDraft& draft, uint64_t seed) : draft_(draft), random_(seed) {}

  uint64_t pick(uint64_t below) { return random_() % below; }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[pick(i)]);
  }

  // Routes from parents to children, or for an in-tree from children to parents, in an order that can be executed.
  // Depths are those of the child, parallel to the routes. False when some participant cannot be reached.
  bool grow(NodeId root, bool in_tree, std::vector<uint32_t>& routes, std::vector<uint32_t>& depths) {
    routes.clear();
    depths.clear();
    std::map<NodeId, uint32_t> depth{{root, 0}};
    const std::set<NodeId> nodes = nodes_of_trees(in_tree);
    const auto participants = draft_.collective.participants();
    const auto is_reached = [&](NodeId rank) { return depth.contains(rank); };
    while (!std::all_of(participants.begin(), participants.end(), is_reached)) {
      std::vector<std::vector<LinkId>> ways;
      for (const NodeId node : nodes) {
        for (const auto& [way, end] : ways_from(node, nodes)) {
          const NodeId parent = in_tree ? end : node, child = in_tree ? node : end;
          if (depth.contains(parent) && !depth.contains(child)) ways.push_back(way);
        }
      }
      if (ways.empty()) return false;
      const auto& way = ways[pick(ways.size())];
      const NodeId from = draft_.fabric.link(way.front()).from, to = draft_.fabric.link(way.back()).to;
      const uint32_t below = depth[in_tree ? to : from] + 1;
      depth[in_tree ? from : to] = below;
      routes.push_back(number_of(way));
      depths.push_back(below);
    }
    cut_idle_switches(in_tree, routes, depths);
    if (in_tree) {
      std::reverse(routes.begin(), routes.end());
      std::reverse(depths.begin(), depths.end());
    }
    return true;
  }

  // A path from `root` to another, through some of the others. False when it finds none.
  bool grow_path(NodeId root, NodeId target, std::vector<uint32_t>& routes) {
    const auto participants = draft_.collective.participants();
    const std::set<NodeId> nodes(participants.begin(), participants.end());
    for (int attempt = 0; attempt < 50; ++attempt) {
      routes.clear();
      std::set<NodeId> seen{root};
      for (NodeId at = root; at != target;) {
        Ways ways = ways_from(at, nodes);
        std::erase_if(ways, [&](const auto& way) { return seen.contains(way.second); });
        if (ways.empty()) break;
        const auto& [way, end] = ways[pick(ways.size())];
        routes.push_back(number_of(way));
        seen.insert(end);
        at = end;
      }
      if (seen.contains(target)) return true;
    }
    return false;
  }

 private:
  std::set<NodeId> nodes_of_trees(bool in_tree) const {
    const auto participants = draft_.collective.participants();
    std::set<NodeId> nodes(participants.begin(), participants.end());
    const std::span<const Node> all = draft_.fabric.nodes();
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (!draft_.fabric.is_rank(NodeId{i}) && (in_tree ? all[i].reduce : all[i].multicast)) nodes.insert(NodeId{i});
    }
    return nodes;
  }

  // Routes stand parents first.
  void cut_idle_switches(bool in_tree, std::vector<uint32_t>& routes, std::vector<uint32_t>& depths) const {
    std::set<NodeId> needed;
    for (size_t i = routes.size(); i > 0; --i) {
      const auto& way = draft_.routes[routes[i - 1]];
      const NodeId from = draft_.fabric.link(way.front()).from, to = draft_.fabric.link(way.back()).to;
      const NodeId parent = in_tree ? to : from, child = in_tree ? from : to;
      if (draft_.fabric.is_rank(child) || needed.contains(child)) {
        needed.insert(parent);
        continue;
      }
      routes.erase(routes.begin() + static_cast<ptrdiff_t>(i - 1));
      depths.erase(depths.begin() + static_cast<ptrdiff_t>(i - 1));
    }
  }

  using Ways = std::vector<std::pair<std::vector<LinkId>, NodeId>>;

  // One random way to each of these nodes that can be reached through switches only.
  Ways ways_from(NodeId from, const std::set<NodeId>& nodes) {
    Ways ways;
    std::set<NodeId> seen{from};
    std::vector<std::pair<NodeId, std::vector<LinkId>>> open{{from, {}}};
    while (!open.empty()) {
      std::swap(open[pick(open.size())], open.back());
      const auto [node, path] = std::move(open.back());
      open.pop_back();
      std::vector<LinkId> next(draft_.fabric.out_links(node).begin(), draft_.fabric.out_links(node).end());
      shuffle(next);
      for (const LinkId id : next) {
        const NodeId to = draft_.fabric.link(id).to;
        if (!seen.insert(to).second) continue;
        std::vector<LinkId> longer = path;
        longer.push_back(id);
        if (nodes.contains(to)) ways.emplace_back(longer, to);
        if (!draft_.fabric.is_rank(to)) open.emplace_back(to, std::move(longer));
      }
    }
    return ways;
  }

  uint32_t number_of(const std::vector<LinkId>& links) {
    const auto [found, is_new] = numbers_.emplace(links, static_cast<uint32_t>(draft_.routes.size()));
    if (is_new) draft_.routes.push_back(links);
    return found->second;
  }

  ScheduleDraft& draft_;
  std::mt19937_64 random_;
  std::map<std::vector<LinkId>, uint32_t> numbers_;
};

// Units of a root's chunks, `parts` in all; every chunk gets at least one.
std::vector<uint64_t> split(Gardener& gardener, uint64_t parts, uint64_t chunks) {
  std::vector<uint64_t> units(std::min(parts, chunks), 1);
  for (uint64_t rest = parts - units.size(); rest > 0; --rest) ++units[gardener.pick(units.size())];
  return units;
}

// False when some pair has no path.
bool fill_pairs(ScheduleDraft& draft, Gardener& gardener, uint64_t scale, const RandomScheduleOptions& options) {
  const Collective& collective = draft.collective;
  const auto participants = collective.participants();
  for (size_t from = 0; from < participants.size(); ++from) {
    for (size_t to = 0; to < participants.size(); ++to) {
      if (from == to) continue;
      const uint64_t parts = collective.traffic(from, to) * scale;
      for (const uint64_t units : split(gardener, parts, 1 + gardener.pick(options.max_chunks_per_root))) {
        ChunkDraft chunk{.root = participants[from], .units = units};
        if (!gardener.grow_path(participants[from], participants[to], chunk.out)) return false;
        for (uint32_t hop = 1; options.steps && hop <= chunk.out.size(); ++hop) chunk.out_steps.push_back(hop);
        draft.chunks.push_back(std::move(chunk));
      }
    }
  }
  return true;
}

// False when the trees of some root cannot reach every participant.
bool fill(ScheduleDraft& draft, const RandomScheduleOptions& options) {
  Gardener gardener(draft, options.seed);
  const Collective& collective = draft.collective;
  const uint32_t ranks = static_cast<uint32_t>(collective.participants().size());
  const uint64_t scale = 1 + gardener.pick(4);
  if (collective.is_personal()) return fill_pairs(draft, gardener, scale, options);
  for (uint32_t i = 0; i < ranks; ++i) {
    const uint64_t parts = collective.weights()[i] * (collective.fixes_roots() ? scale : gardener.pick(3) + (i == 0));
    for (const uint64_t units : split(gardener, parts, 1 + gardener.pick(options.max_chunks_per_root))) {
      ChunkDraft chunk{.root = collective.participants()[i], .units = units};
      std::vector<uint32_t> depths;
      if (collective.reduces()) {
        if (!gardener.grow(chunk.root, true, chunk.in, depths)) return false;
        for (const uint32_t depth : depths) chunk.in_steps.push_back(ranks - depth);
      }
      if (collective.spreads()) {
        if (!gardener.grow(chunk.root, false, chunk.out, depths)) return false;
        for (const uint32_t depth : depths) chunk.out_steps.push_back(ranks + depth);
      }
      if (!options.steps) chunk.in_steps = chunk.out_steps = {};
      draft.chunks.push_back(std::move(chunk));
    }
  }
  return true;
}

}  // namespace

ScheduleDraft random_schedule(const Fabric& fabric, const RandomScheduleOptions& options) {
  std::mt19937_64 random(options.seed);
  for (bool all = false;; all = true) {  // a part of the ranks may be unable to talk; all of them never are
    std::vector<NodeId> ranks(fabric.ranks().begin(), fabric.ranks().end());
    if (!all) std::erase_if(ranks, [&](NodeId) { return random() % 4 == 0; });
    if (ranks.size() < 2) continue;
    Collective::Options asked{.kind = options.kind, .ranks = ranks};
    if (is_personal(options.kind) && random() % 2 == 0) {
      for (size_t i = 0; i < ranks.size() * ranks.size(); ++i) asked.traffic.push_back(random() % 3);
      asked.traffic[1] = 2;
    }
    const bool sharded = is_sharded(options.kind) && !is_personal(options.kind);
    if (sharded && random() % 2 == 0) {
      for (size_t i = 0; i < ranks.size(); ++i) asked.weights.push_back(random() % 4 + (i == 0));
    }
    if (is_rooted(options.kind)) {
      asked.root = ranks[random() % ranks.size()];
    }
    ScheduleDraft draft{.fabric = fabric, .collective = Collective::make(fabric, asked)};
    if (fill(draft, options)) return draft;
    CHECK(!all) << "seed " << options.seed;
  }
}

}  // namespace banyan::testing
