#include "banyan/plan/forest/tree_schedule.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

// Puts the paths of one phase into a schedule as routes, and says which routes make a tree.
class TreeWriter {
 public:
  // `turned` reverses every path: reduce trees planned on the reversed network, or mirrored through opposite links.
  TreeWriter(Schedule::Builder& builder, const DirectedTrees& phase, bool turned,
             const std::vector<LinkId>* opposite = nullptr)
      : turned_(turned) {
    std::vector<LinkId> links;
    phase.trees->visit_paths([&](TreeSource::Path path) {
      links.clear();
      for (const uint32_t arc : path) {
        const LinkId link = phase.network.arcs()[arc].link;
        links.push_back(opposite ? (*opposite)[index(link)] : link);
      }
      if (turned) std::reverse(links.begin(), links.end());
      const RouteId route = builder.add_route(links);
      if (!any_) first_ = index(route);
      any_ = true;
    });
  }

  // Until the next call.
  std::span<const RouteId> tree(std::span<const uint32_t> paths) {
    edges_.resize(paths.size());
    std::ranges::transform(paths, edges_.begin(), [&](uint32_t path) { return RouteId{first_ + path}; });
    if (turned_) std::reverse(edges_.begin(), edges_.end());
    return edges_;
  }

 private:
  bool turned_, any_ = false;
  uint32_t first_ = 0;  // route of path 0; those of the others follow
  std::vector<RouteId> edges_;
};

// How many chunks and edges are to come.
void reserve(Schedule::Builder& builder, const TreeSource::Sizes& sizes, size_t times) {
  builder.reserve({.routes = times * sizes.paths,
                   .route_links = times * sizes.path_arcs,
                   .chunks = sizes.trees,
                   .edges = times * sizes.edges});
}

// Both phases cut every root's share into trees, perhaps differently: a chunk is where one in-tree meets one out-tree.
void add_joined_chunks(Schedule::Builder& builder, DirectedTrees& gather, DirectedTrees& spread) {
  TreeWriter out(builder, spread, false), in(builder, gather, true);
  // Units of both directions in a common measure.
  const int64_t common = std::lcm(gather.trees_per_weight, spread.trees_per_weight);
  const int64_t in_scale = common / gather.trees_per_weight, out_scale = common / spread.trees_per_weight;
  const Packing in_trees = collect(*gather.trees), out_trees = collect(*spread.trees);
  size_t i = 0, o = 0;
  int64_t in_left = 0, out_left = 0;
  // Trees of both packings are sorted by root, and every root has the same total in both.
  while (i < in_trees.trees.size() && o < out_trees.trees.size()) {
    const PackedTree &in_tree = in_trees.trees[i], &out_tree = out_trees.trees[o];
    CHECK_EQ(in_tree.root, out_tree.root);
    if (in_left == 0) in_left = in_tree.units * in_scale;
    if (out_left == 0) out_left = out_tree.units * out_scale;
    // A chunk lasts until one of the two trees is used up.
    const int64_t units = std::min(in_left, out_left);
    builder.add_chunk({.root = spread.network.node_of(out_tree.root),
                       .units = static_cast<uint64_t>(units),
                       .in_tree = in.tree(in_tree.paths),
                       .out_tree = out.tree(out_tree.paths)});
    if ((in_left -= units) == 0) ++i;
    if ((out_left -= units) == 0) ++o;
  }
}

// An allreduce whose in-trees are its out-trees turned round.
void add_mirrored_chunks(Schedule::Builder& builder, DirectedTrees& spread, TreeWriter& in, TreeWriter& out) {
  spread.trees->visit_trees([&](const TreeSource::Tree& tree) {
    builder.add_chunk({.root = spread.network.node_of(tree.root),
                       .units = static_cast<uint64_t>(tree.units),
                       .in_tree = in.tree(tree.paths),
                       .out_tree = out.tree(tree.paths)});
  });
  builder.order_by_root();
}

}  // namespace

// For each link its opposite of the same bandwidth, or nothing when some link has none.
std::optional<std::vector<LinkId>> opposite_links(const Fabric& fabric) {
  using Key = std::tuple<NodeId, NodeId, Bandwidth>;
  // Parallel links of the same bandwidth pair off in order; if one way has more of them, some link has no opposite.
  std::map<Key, std::vector<LinkId>> by_ends;
  for (uint32_t l = 0; l < fabric.links().size(); ++l) {
    const Link& link = fabric.link(LinkId{l});
    by_ends[{link.from, link.to, link.bandwidth}].push_back(LinkId{l});
  }
  std::vector<LinkId> opposite(fabric.links().size());
  for (const auto& [key, links] : by_ends) {
    const auto& [from, to, bandwidth] = key;
    const auto back = by_ends.find({to, from, bandwidth});
    if (back == by_ends.end() || back->second.size() != links.size()) return std::nullopt;
    for (size_t i = 0; i < links.size(); ++i) opposite[index(links[i])] = back->second[i];
  }
  return opposite;
}

Schedule to_schedule(const Fabric& fabric, const Collective& collective, std::optional<DirectedTrees> gather,
                     std::optional<DirectedTrees> spread) {
  Schedule::Builder builder(fabric, collective);
  // Both directions were planned apart: a chunk is where trees of both meet.
  if (gather && spread) {
    add_joined_chunks(builder, *gather, *spread);
    return std::move(builder).build();
  }
  // One direction stands for both: in-trees are out-trees turned round, over opposite links.
  if (collective.reduces() && collective.spreads()) {
    const auto opposite = opposite_links(fabric);
    reserve(builder, spread->trees->sizes(), 2);
    TreeWriter out(builder, *spread, false), in(builder, *spread, true, &*opposite);
    add_mirrored_chunks(builder, *spread, in, out);
    return std::move(builder).build();
  }
  DirectedTrees& phase = gather ? *gather : *spread;
  reserve(builder, phase.trees->sizes(), 1);
  TreeWriter writer(builder, phase, gather.has_value());
  phase.trees->visit_trees([&](const TreeSource::Tree& tree) {
    Schedule::Builder::NewChunk chunk{.root = phase.network.node_of(tree.root),
                                      .units = static_cast<uint64_t>(tree.units)};
    (gather ? chunk.in_tree : chunk.out_tree) = writer.tree(tree.paths);
    builder.add_chunk(chunk);
  });
  return std::move(builder).build();
}

}  // namespace banyan::plan
