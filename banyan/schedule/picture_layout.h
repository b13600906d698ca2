// Where the nodes of a fabric stand on the page.
//
//   grid    no switches and names like x2y3 or x2y3z1: where the names say; the third dimension goes back obliquely
//   circle  no switches and one box
//   boxes   everything else: one panel per box, side by side, and above (or between two rows of) panels the switches
//           that join them, level by level; with more rows, cables go past the panels between in bundles. In a panel
//           ranks stand in a row with the box's switches below, or above where these go on to other switches; ranks
//           with cables between them, or many around one hub, stand on a circle.
//
// Up to kMaxLabelled ranks every node shows its name; beyond, ranks are dots.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "banyan/schedule/picture_canvas.h"
#include "banyan/schedule/picture_model.h"

namespace banyan::picture {

constexpr size_t kMaxLabelled = 64;
constexpr size_t kMaxNameShown = 14;  // characters
constexpr double kLabelSize = 11;

struct Extent {
  double width = 0, height = 0;
};

struct Panel {
  Point corner;
  Extent size;
};

struct Layout {
  Extent size;
  std::vector<Point> middle;   // by node
  std::vector<Extent> extent;  // by node
  std::vector<Panel> panels;   // by box; none when there is one
  // By node: the ranks of a row of panels that is not next to the switches leave their panel at this height, and go
  // past the panels between at this x.
  std::vector<std::optional<Point>> detour;
  std::vector<uint32_t> panel_of;  // by node: its box, or Boxes::kNone
  std::vector<bool> is_bar;        // by node: a switch drawn as wide as what it joins
  bool labelled = true;
  std::vector<std::array<uint32_t, 3>> grid;  // by node, where names tell it: cables must go round nodes between

  // Where a cable to `other` is fastened: straight above or below it as far as a bar goes, else at the middle.
  Point fastening(NodeId node, NodeId other) const;
};

// How large a node of this name is drawn.
Extent node_extent(std::string_view name, bool labelled);

Layout lay_out(const Fabric& fabric, const Wiring& wiring);

}  // namespace banyan::picture
