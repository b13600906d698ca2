// Pictures of fabrics and trees, for slides and for understanding: SVG (self-contained) and Graphviz DOT.
//
// The layout (drawing.h) is deterministic and needs no other program or library: the one of Graphviz would bring fifty
// packages with it (cairo, pango, X11), and lay out otherwise on each system. Widths and colours of lines follow
// bandwidth; the colours are told apart by colour-blind people too. Up to 64 ranks carry their names; more are cells in
// tiles. Every rank, switch, cable and tree edge of an SVG has its full name as a tooltip. Several links between two
// nodes are one line; it is dashed where the bandwidth of one is assumed. DOT has every node of any fabric: its layout
// is Graphviz's.
#pragma once

#include <optional>
#include <string>

#include "banyan/schedule/schedule.h"

namespace banyan::picture {

enum class Format : uint8_t { svg, dot };

// `name` is the fabric's, as a person knows it: "dgx-h100:2", "cluster.json"; it becomes the title when not empty.
// Throws Error{unsupported} beyond 20,000 nodes: nobody sees anything.
std::string draw_fabric(const Fabric& fabric, Format format, const std::string& name = "");

struct TreeOptions {
  std::string name = {};            // of the plan, which the title begins with
  std::string title = {};           // instead of "plan.json: allgather among 16 ranks, 2 chunks of gpu0"
  std::optional<NodeId> root = {};  // only trees of this root; absent: of the first chunk's root
  size_t max_trees = 4;             // at most so many, side by side
};
// The trees by level, root on top; edges that cross a switch are dashed, edges from box to box have a colour of their
// own. An allreduce shows in-tree and out-tree of each chunk. Throws Error{not_found} when the root has no tree,
// Error{invalid_input} when a chunk's edges are no tree (verify says more), Error{unsupported} beyond 20,000 nodes of
// the fabric or 200,000 edges.
std::string draw_trees(const Schedule& schedule, Format format, const TreeOptions& options = {});

}  // namespace banyan::picture
