// Pictures of fabrics and trees, for slides and for understanding: SVG (self-contained) and Graphviz DOT.
//
// The layout is deterministic and needs no other program. Ranks of one switch stand together, switches above them;
// direct-connect fabrics lie on a circle, or on the grid their names tell (x2y3). Widths of lines follow bandwidth.
#pragma once

#include <optional>
#include <string>

#include "banyan/schedule/schedule.h"

namespace banyan {

enum class PictureFormat : uint8_t { svg, dot };

std::string draw_fabric(const Fabric& fabric, PictureFormat format);

struct TreePicture {
  std::optional<NodeId> root = {};  // only trees of this root; absent: of the first chunk's root
  size_t max_trees = 4;             // at most so many, side by side
};
// The trees by level, root on top; edges that cross a switch say so. An allreduce shows in-tree and out-tree.
std::string draw_trees(const Schedule& schedule, PictureFormat format, const TreePicture& options = {});

}  // namespace banyan
