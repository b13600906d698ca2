// The trees of a schedule, checked to be trees, as both formats draw them; and the drawings behind picture.h.
#pragma once

#include <string>
#include <vector>

#include "banyan/picture/picture.h"

namespace banyan::picture {

// One tree of a chunk, by levels: an in-tree is turned so that its root comes first as well.
struct TreeEdge {
  NodeId parent{}, child{};
  uint32_t depth = 0;  // of the child
  bool crosses_boxes = false;
  std::string via;  // names of the switches on the way, "" for direct links
};
struct Tree {
  size_t chunk = 0;
  bool gathers = false;
  NodeId root{};
  std::vector<TreeEdge> edges;  // parents before children
  uint32_t height = 0;
  std::string title, subtitle;  // "from gpu0", "1/8 of the buffer, height 3"
};
// The trees that a drawing shows.
struct PickedTrees {
  std::string title;  // "plan.json: allreduce among 16 ranks, 2 of the 8 chunks of gpu0"
  std::vector<Tree> trees;
  bool several_boxes = false;
};
// Throws Error{not_found} when no chunk has the root, Error{invalid_input} when an edge list is not a tree.
PickedTrees pick_trees(const Schedule& schedule, const TreeOptions& options);

std::string fabric_as_svg(const Fabric& fabric, const std::string& name);   // fabric_svg.cc
std::string trees_as_svg(const Fabric& fabric, const PickedTrees& picked);  // tree_svg.cc
std::string fabric_as_dot(const Fabric& fabric, const std::string& name);   // dot.cc
std::string trees_as_dot(const Fabric& fabric, const PickedTrees& picked);  // dot.cc

}  // namespace banyan::picture
