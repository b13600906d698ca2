#include "banyan/plan/forest/rotated_trees.h"

#include <algorithm>
#include <span>
#include <utility>

namespace banyan::plan {

std::unique_ptr<RotatedTrees> RotatedTrees::make(const Network& network, Symmetry symmetry, const Packing& grown) {
  std::unique_ptr<RotatedTrees> trees(new RotatedTrees(std::move(symmetry)));
  std::vector<uint32_t> place(network.participant_count(), UINT32_MAX);  // in tails_
  const auto tail = [&](uint32_t participant) {
    if (place[participant] == UINT32_MAX) {
      place[participant] = static_cast<uint32_t>(trees->tails_.size());
      trees->tails_.push_back(trees->symmetry_.point_of_vertex(participant));
    }
    return place[participant];
  };
  // Each path is brought home, to the representative that it is an image from. Paths that come home as the same are
  // one.
  PathTable homes;
  std::vector<uint32_t> uses, home;  // uses: by number in homes
  for (const PackedTree& tree : grown.trees) {
    GrownTree row{.root = tail(tree.root), .units = tree.units, .height = tree.height, .edges = {}};
    row.edges.reserve(tree.paths.size());
    for (const uint32_t id : tree.paths) {
      const Path path = grown.paths.path(id);
      const uint32_t leaves = network.arcs()[path.front()].tail, enters = network.arcs()[path.back()].head;
      // A path out of a switch is told by the participant that it leads to, or by the root: an element may keep a
      // switch.
      const uint32_t from = network.is_participant(leaves)   ? leaves
                            : network.is_participant(enters) ? enters
                                                             : tree.root;
      home.assign(path.begin(), path.end());
      trees->symmetry_.bring_home(from, home);
      row.edges.push_back({.tail = tail(from), .path = homes.intern(home)});
      uses.resize(homes.size(), 0);
      ++uses[row.edges.back().path];
    }
    trees->height_ = std::max(trees->height_, tree.height);
    trees->trees_.push_back(std::move(row));
  }
  // Numbers of paths are e * P + p in 32 bits.
  if (homes.size() * trees->symmetry_.order() > UINT32_MAX) return nullptr;
  trees->part_paths(homes, uses);
  trees->number_elements(network.participant_count());
  return trees;
}

void RotatedTrees::part_paths(const PathTable& homes, std::span<const uint32_t> uses) {
  // Paths that trees take more than once on average come first: they are looked up most and lie close together.
  const auto group_of = [&](uint32_t path) { return uses[path] > trees_.size() ? 0u : 1u; };
  std::vector<uint32_t> number(homes.size());
  for (uint32_t path = 0; path < homes.size(); ++path)
    number[path] = groups_[group_of(path)].home.append(homes.path(path));
  groups_[1].first = static_cast<uint32_t>(groups_[0].home.size() * symmetry_.order());
  for (GrownTree& tree : trees_) {
    for (Edge& edge : tree.edges) edge = {.tail = kGroups * edge.tail + group_of(edge.path), .path = number[edge.path]};
  }
}

void RotatedTrees::number_elements(uint32_t participants) {
  element_of_.resize(participants);
  // One walk over the elements numbers them, and tells for every participant which element takes its representative
  // there.
  std::vector<uint32_t> points;
  for (const uint32_t terminal : symmetry_.representatives()) points.push_back(symmetry_.point_of_vertex(terminal));
  uint32_t element = 0;
  symmetry_.walk(points, [&](Symmetry::Points images) {
    for (const uint32_t image : images) element_of_[image] = element;
    ++element;
  });
}

TreeSource::Sizes RotatedTrees::sizes() const {
  Sizes sizes{.trees = trees_.size() * symmetry_.order()};
  for (const Group& group : groups_) {
    sizes.paths += group.home.size() * symmetry_.order();
    sizes.path_arcs += group.home.arcs() * symmetry_.order();
  }
  for (const GrownTree& tree : trees_) sizes.edges += tree.edges.size() * symmetry_.order();
  return sizes;
}

void RotatedTrees::visit_paths(const std::function<void(Path)>& visit) const {
  for (const Group& group : groups_) visit_paths(group.home, visit);
}

void RotatedTrees::visit_paths(const PathTable& home, const std::function<void(Path)>& visit) const {
  // Each arc of the paths is a point once, however many paths take it.
  std::vector<uint32_t> points, arcs, path;
  for (uint32_t p = 0; p < home.size(); ++p) {
    for (const uint32_t a : home.path(p)) points.push_back(symmetry_.point_of_arc(a));
  }
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  for (uint32_t p = 0; p < home.size(); ++p) {
    for (const uint32_t a : home.path(p)) {
      const auto at = std::ranges::lower_bound(points, symmetry_.point_of_arc(a));
      arcs.push_back(static_cast<uint32_t>(at - points.begin()));
    }
  }
  // The walk takes elements in the order of their numbers, so paths come out in the order of theirs.
  symmetry_.walk(points, [&](Symmetry::Points images) {
    size_t at = 0;
    for (uint32_t p = 0; p < home.size(); ++p) {
      path.clear();
      for (size_t i = 0; i < home.path(p).size(); ++i) path.push_back(symmetry_.arc_of_point(images[arcs[at++]]));
      visit(path);
    }
  });
}

void RotatedTrees::visit_trees(const std::function<void(const Tree&)>& visit) {
  std::vector<uint32_t> first(kGroups * tails_.size()), ids;  // first: numbers of the first paths out of each tail
  // For each element the first number of the paths out of each tail; an edge of an image is then one addition.
  symmetry_.walk(tails_, [&](Symmetry::Points images) {
    for (size_t i = 0; i < first.size(); ++i) {
      const Group& group = groups_[i % kGroups];
      first[i] = group.first + element_of_[images[i / kGroups]] * static_cast<uint32_t>(group.home.size());
    }
    for (const GrownTree& tree : trees_) {
      ids.resize(tree.edges.size());
      std::ranges::transform(tree.edges, ids.begin(), [&](const Edge& edge) { return first[edge.tail] + edge.path; });
      visit({.root = images[tree.root], .units = tree.units, .height = tree.height, .paths = ids});
    }
  });
}

}  // namespace banyan::plan
