#include "banyan/plan/forest/rotated_trees.h"

#include <algorithm>
#include <utility>

namespace banyan::plan {

std::unique_ptr<RotatedTrees> RotatedTrees::make(const Network& network, Symmetry symmetry, const Packing& grown) {
  std::unique_ptr<RotatedTrees> trees(new RotatedTrees(std::move(symmetry)));
  std::vector<uint32_t> place(network.terminal_count(), UINT32_MAX);  // in tails_
  const auto tail = [&](uint32_t terminal) {
    if (place[terminal] == UINT32_MAX) {
      place[terminal] = static_cast<uint32_t>(trees->tails_.size());
      trees->tails_.push_back(trees->symmetry_.point_of_vertex(terminal));
    }
    return place[terminal];
  };
  std::vector<uint32_t> home;
  for (const PackedTree& tree : grown.trees) {
    GrownTree row{.root = tail(tree.root), .units = tree.units, .height = tree.height, .edges = {}};
    row.edges.reserve(tree.paths.size());
    for (const uint32_t id : tree.paths) {
      const Path path = grown.paths.path(id);
      const uint32_t from = network.arcs()[path.front()].tail;
      home.assign(path.begin(), path.end());
      trees->symmetry_.bring_home(from, home);
      row.edges.push_back({.tail = tail(from), .path = trees->home_.intern(home)});
    }
    trees->height_ = std::max(trees->height_, tree.height);
    trees->trees_.push_back(std::move(row));
  }
  if (trees->home_.size() * trees->symmetry_.order() > UINT32_MAX) return nullptr;
  trees->number_elements(network.terminal_count());
  return trees;
}

void RotatedTrees::number_elements(uint32_t terminals) {
  element_of_.resize(terminals);
  std::vector<uint32_t> points;
  for (const uint32_t terminal : symmetry_.representatives()) points.push_back(symmetry_.point_of_vertex(terminal));
  uint32_t element = 0;
  symmetry_.walk(points, [&](Symmetry::Points images) {
    for (const uint32_t image : images) element_of_[image] = element;
    ++element;
  });
}

TreeSource::Sizes RotatedTrees::sizes() const {
  const size_t order = symmetry_.order();
  Sizes sizes{.paths = home_.size() * order, .path_arcs = home_.arcs() * order, .trees = trees_.size() * order};
  for (const GrownTree& tree : trees_) sizes.edges += tree.edges.size() * order;
  return sizes;
}

void RotatedTrees::visit_paths(const std::function<void(Path)>& visit) const {
  // Each arc of the paths is a point once, however many paths take it.
  std::vector<uint32_t> points, arcs, path;
  for (uint32_t p = 0; p < home_.size(); ++p) {
    for (const uint32_t a : home_.path(p)) points.push_back(symmetry_.point_of_arc(a));
  }
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  for (uint32_t p = 0; p < home_.size(); ++p) {
    for (const uint32_t a : home_.path(p)) {
      const auto at = std::ranges::lower_bound(points, symmetry_.point_of_arc(a));
      arcs.push_back(static_cast<uint32_t>(at - points.begin()));
    }
  }
  symmetry_.walk(points, [&](Symmetry::Points images) {
    size_t at = 0;
    for (uint32_t p = 0; p < home_.size(); ++p) {
      path.clear();
      for (size_t i = 0; i < home_.path(p).size(); ++i) path.push_back(symmetry_.arc_of_point(images[arcs[at++]]));
      visit(path);
    }
  });
}

void RotatedTrees::visit_trees(const std::function<void(const Tree&)>& visit) {
  const uint32_t paths = static_cast<uint32_t>(home_.size());
  std::vector<uint32_t> first(tails_.size()), ids;  // first: number of the first path out of each tail
  symmetry_.walk(tails_, [&](Symmetry::Points images) {
    for (size_t i = 0; i < images.size(); ++i) first[i] = element_of_[images[i]] * paths;
    for (const GrownTree& tree : trees_) {
      ids.resize(tree.edges.size());
      std::ranges::transform(tree.edges, ids.begin(), [&](const Edge& edge) { return first[edge.tail] + edge.path; });
      visit({.root = images[tree.root], .units = tree.units, .height = tree.height, .paths = ids});
    }
  });
}

}  // namespace banyan::plan
