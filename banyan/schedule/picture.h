// Pictures of fabrics and trees, for slides and for understanding: SVG (self-contained) and Graphviz DOT.
//
// The layout is deterministic and needs no other program. Ranks of one box (fabric/boxes.h) stand together on a panel
// with their switches, the switches that join boxes above or between the panels; direct-connect fabrics lie on a
// circle, or on the grid their names tell (x2y3, x2y3z1). Widths and colours of lines follow bandwidth; the colours are
// told apart by colour-blind people too. Up to 64 ranks carry their names, more are dots; every node, cable and tree
// edge of an SVG has its full name as a tooltip. Several links between two nodes are one line.
#pragma once

#include <optional>
#include <string>

#include "banyan/schedule/schedule.h"

namespace banyan {

enum class PictureFormat : uint8_t { svg, dot };

// Throws Error{unsupported} beyond 20,000 nodes: nobody sees anything.
std::string draw_fabric(const Fabric& fabric, PictureFormat format);

struct TreePicture {
  std::optional<NodeId> root = {};  // only trees of this root; absent: of the first chunk's root
  size_t max_trees = 4;             // at most so many, side by side
};
// The trees by level, root on top; edges that cross a switch are dashed, edges from box to box have a colour of their
// own. An allreduce shows in-tree and out-tree of each chunk. Throws Error{not_found} when the root has no tree,
// Error{invalid_input} when a chunk's edges are no tree (verify says more), Error{unsupported} beyond 20,000 nodes of
// the fabric or 200,000 edges.
std::string draw_trees(const Schedule& schedule, PictureFormat format, const TreePicture& options = {});

}  // namespace banyan
