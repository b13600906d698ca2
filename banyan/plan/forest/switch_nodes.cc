#include "banyan/plan/forest/switch_nodes.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace banyan::plan {
namespace {

class SwitchCutter {
 public:
  SwitchCutter(const Network& network, const PathTable& from) : network_(network), from_(from) {}

  PackedTree cut(const PackedTree& tree, PathTable& paths) {
    // Edges come parents before children, so the way to an edge's tail is known when the edge comes.
    count_children(tree);
    way_to_.assign(network_.vertex_count(), {});
    depth_.assign(network_.vertex_count(), 0);
    PackedTree result{.root = tree.root, .units = tree.units, .height = 0, .paths = {}};
    for (const uint32_t id : tree.paths) {
      const auto [tail, head] = ends(id);
      // A switch without children is cut off, with the path that leads to it.
      if (!network_.is_participant(head) && children_[head] == 0) continue;
      // The path begins with what led through switches of a single child.
      std::vector<uint32_t> way = way_to_[tail];
      way.insert(way.end(), from_.path(id).begin(), from_.path(id).end());
      cut_short(way);
      depth_[head] = depth_[tail];
      // A switch with a single child becomes a part of the path through it.
      if (!network_.is_participant(head) && children_[head] == 1) {
        way_to_[head] = std::move(way);
        continue;
      }
      if (network_.is_participant(head)) result.height = std::max(result.height, ++depth_[head]);
      result.paths.push_back(paths.intern(way));
    }
    return result;
  }

 private:
  std::pair<uint32_t, uint32_t> ends(uint32_t path) const {
    return {network_.arcs()[from_.path(path).front()].tail, network_.arcs()[from_.path(path).back()].head};
  }

  // Of what is not cut off. Parents stand before their children.
  void count_children(const PackedTree& tree) {
    children_.assign(network_.vertex_count(), 0);
    // Children come before their parents: a switch counts only if something is left below it.
    for (size_t i = tree.paths.size(); i-- > 0;) {
      const auto [tail, head] = ends(tree.paths[i]);
      if (network_.is_participant(head) || children_[head] > 0) ++children_[tail];
    }
  }

  // Leaves out the circles of a path.
  void cut_short(std::vector<uint32_t>& way) const {
    for (size_t i = 0; i < way.size(); ++i) {
      // The last time that the path leaves this vertex counts; all between is a circle.
      const uint32_t vertex = network_.arcs()[way[i]].tail;
      for (size_t last = way.size(); last-- > i + 1;) {
        if (network_.arcs()[way[last]].tail != vertex) continue;
        way.erase(way.begin() + static_cast<std::ptrdiff_t>(i), way.begin() + static_cast<std::ptrdiff_t>(last));
        break;
      }
    }
  }

  const Network& network_;
  const PathTable& from_;
  std::vector<uint32_t> children_, depth_;     // by vertex
  std::vector<std::vector<uint32_t>> way_to_;  // of a switch with one child: the path that goes on from it
};

}  // namespace

Packing without_idle_switches(const Network& network, const Packing& packing) {
  Packing result{
      .paths = {}, .trees = {}, .checks = packing.checks, .growths = packing.growths, .sure_trees = packing.sure_trees};
  SwitchCutter cutter(network, packing.paths);
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, size_t> known;
  for (const PackedTree& tree : packing.trees) {
    PackedTree cut = cutter.cut(tree, result.paths);
    // Trees of a root that have become the same are one, with the units of both.
    const auto [at, is_new] = known.try_emplace({cut.root, cut.paths}, result.trees.size());
    if (is_new) {
      result.trees.push_back(std::move(cut));
    } else {
      result.trees[at->second].units += cut.units;
    }
  }
  return result;
}

}  // namespace banyan::plan
