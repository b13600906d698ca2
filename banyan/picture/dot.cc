// Pictures as Graphviz DOT. Identifiers are numbers of our own; names appear as quoted labels only.
#include <cmath>
#include <numeric>

#include "banyan/fabric/boxes.h"
#include "banyan/picture/shades.h"
#include "banyan/picture/trees.h"

namespace banyan::picture {
namespace {

// In a label a backslash begins an escape, so it is doubled like in C.
std::string dot_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string tenths(double value) {
  const long long scaled = std::llround(value * 10);
  return std::to_string(scaled / 10) + "." + std::to_string(scaled % 10);
}

std::string node_line(const Fabric& fabric, NodeId node, const std::string& id, bool highlighted = false) {
  std::string line = dot_text(id) + " [label=" + dot_text(fabric.name(node));
  if (highlighted) {
    line += ", fillcolor=\"#FFE08A\"";
  } else if (!fabric.is_rank(node)) {
    line += ", shape=\"box\", fillcolor=\"#4A5568\", fontcolor=\"white\"";
  }
  return line + "];\n";
}

std::string edge_line(const std::string& from, const std::string& to, const std::string& attributes) {
  return "  " + dot_text(from) + " -> " + dot_text(to) + " [" + attributes + "];\n";
}

constexpr const char* kHead =
    "  graph [fontname=\"Helvetica\", outputorder=\"edgesfirst\", overlap=\"false\"];\n"
    "  node [fontname=\"Helvetica\", fontsize=\"11\", shape=\"ellipse\", style=\"filled\", fillcolor=\"#DCEBF7\"];\n"
    "  edge [fontname=\"Helvetica\", fontsize=\"9\"];\n";

}  // namespace

std::string fabric_as_dot(const Fabric& fabric, const std::string& name) {
  const fabric::Boxes boxes = find_boxes(fabric);
  std::vector<uint32_t> every_node(fabric.nodes().size());
  std::iota(every_node.begin(), every_node.end(), 0);
  const std::vector<Cable> cables = cables_between(fabric, every_node);
  const Shades shades(cables);
  const auto id = [](NodeId node) { return "n" + std::to_string(index(node)); };
  std::string dot = "digraph \"fabric\" {\n" + std::string(kHead);
  if (!name.empty()) dot += "  label=" + dot_text(name) + ";\n";
  for (uint32_t box = 0; boxes.count() > 1 && box < boxes.count(); ++box) {
    dot += "  subgraph \"cluster_" + std::to_string(box) + "\" {\n    label=\"box " + std::to_string(box) +
           "\"; style=\"rounded,filled\"; color=\"#CBD5E0\"; fillcolor=\"#F4F7FA\";\n";
    for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
      if (boxes.box_of[node] == box) dot += "    " + node_line(fabric, NodeId{node}, id(NodeId{node}));
    }
    dot += "  }\n";
  }
  for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
    if (boxes.count() > 1 && boxes.box_of[node] != fabric::Boxes::kNone) continue;
    dot += "  " + node_line(fabric, NodeId{node}, id(NodeId{node}));
  }
  for (const Cable& cable : cables) {
    const std::string a = id(NodeId{cable.a}), b = id(NodeId{cable.b});
    const auto attributes = [&](uint64_t bandwidth, const char* direction) {
      return "dir=" + dot_text(direction) +
             ", penwidth=" + dot_text(tenths(shades.line_width(cable.widest(), 0.8, 4.5))) +
             ", color=" + dot_text(shades.of(cable).colour) + (cable.assumed ? ", style=\"dashed\"" : "") +
             ", tooltip=" + dot_text(bandwidth_text(bandwidth) + (cable.assumed ? " (assumed)" : ""));
    };
    if (cable.is_even()) {
      dot += edge_line(a, b, attributes(cable.forth_bandwidth, "none"));
      continue;
    }
    dot += edge_line(a, b, attributes(cable.forth_bandwidth, "forward"));
    if (!cable.is_one_way()) dot += edge_line(b, a, attributes(cable.back_bandwidth, "forward"));
  }
  return dot + "}\n";
}

std::string trees_as_dot(const Fabric& fabric, const PickedTrees& picked) {
  std::string dot = "digraph \"trees\" {\n" + std::string(kHead) + "  label=" + dot_text(picked.title) + ";\n";
  for (size_t t = 0; t < picked.trees.size(); ++t) {
    const Tree& tree = picked.trees[t];
    const auto id = [&](NodeId node) { return "t" + std::to_string(t) + "n" + std::to_string(index(node)); };
    dot += "  subgraph \"cluster_" + std::to_string(t) +
           "\" {\n    label=" + dot_text(tree.title + ", " + tree.subtitle) +
           "; style=\"rounded\"; color=\"#CBD5E0\";\n";
    dot += "    " + node_line(fabric, tree.root, id(tree.root), true);
    for (const TreeEdge& edge : tree.edges) dot += "    " + node_line(fabric, edge.child, id(edge.child));
    dot += "  }\n";
    for (const TreeEdge& edge : tree.edges) {
      // The root is on top in both kinds, so an in-tree's arrows point backwards.
      std::string attributes = "dir=" + dot_text(tree.gathers ? "back" : "forward") +
                               ", color=" + dot_text(edge.crosses_boxes ? kVermillion : kBlue);
      if (!edge.via.empty()) attributes += ", style=\"dashed\", tooltip=" + dot_text("through " + edge.via);
      dot += edge_line(id(edge.parent), id(edge.child), attributes);
    }
  }
  return dot + "}\n";
}

}  // namespace banyan::picture
