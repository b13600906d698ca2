// Drawing: where a fabric stands on a page, and which links each line of it stands for. The one layout of fabrics: SVG
// pictures (picture.h) and the page of a report colour and write it down, each in its own way.
//
// Small fabrics (up to kMaxDetailed ranks, and grids up to kMaxCables cables) are drawn node by node:
//
//   grid      no switches and names like x2y3 or x2y3z1: where the names say; the third dimension goes back obliquely
//   circle    no switches, one box, and links alike all around, as in a ring; ranks of one package stand together, two
//             quads stand as the faces of a cube
//   spread    no switches and one box, but no known shape: ranks few hops apart stand near one another
//   groups    boxes whose own switches are joined directly, as in a dragonfly: the boxes whose switches are all joined
//             to one another are a group, with its switches on a circle and their ranks around them, and a gap in both
//             towards the middle of the picture where cables between groups would pass behind ranks
//   boxes     everything else: one panel per box, side by side, and above (or between two rows of) panels the switches
//             that join them, level by level; with more rows, cables go past the panels between in bundles. In a panel
//             ranks stand in a row with the box's switches below, or above where these go on to other switches; ranks
//             with cables between them, or many around one hub, stand on a circle.
//
// Larger fabrics are gathered into *units* first:
//
//   tiles     a box with its ranks and its own switches (fabric/boxes.h), or a group of boxes; a fabric of one box is
//             cut into blocks of consecutive ranks, and more than kMaxTiles boxes into blocks of consecutive boxes
//   switches  those that join tiles, level by level; where a level has many cables to the one below, the switches that
//             reach the same units of it become one, so that a pod of a fat tree has one bar above its tiles
//
// Tiles that hang on one bar alone stand together below it, in rows with lanes between the columns, in which their
// cables go up; several such pods stand below the next level in the same way. So a fat tree of 1,024 hosts is 16 pods
// of 8 tiles, and no cable crosses a tile. Tiles that are joined directly stand on a circle.
//
// Same fabric, same drawing. Complexity O(links log links). Every link is in exactly one cable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/picture/canvas.h"

namespace banyan::picture {

// One thing in a picture: a rank, a switch, or several of them.
struct Unit {
  enum class Kind : uint8_t { rank, tile, switch_ };
  std::string name = {};
  Kind kind = Kind::rank;
  Point middle = {};
  Extent size = {};
  bool labelled = true;
  std::vector<NodeId> ranks = {};
  size_t switches = 0;

  Point corner() const { return {middle.x - size.width / 2, middle.y - size.height / 2}; }
};

// All links between two units as one line, or inside of one unit (a == b, no path, all of them `forth`).
struct Cable {
  uint32_t a = 0, b = 0;                             // units, in the direction of the first link
  std::vector<LinkId> forth = {}, back = {};         // from a to b, from b to a
  uint64_t forth_bandwidth = 0, back_bandwidth = 0;  // bytes per second, summed
  std::vector<Point> path = {};                      // from a to b
  bool curved = false;                               // the middle one of three points only draws the line to its side
  bool assumed = false;                              // the bandwidth of one of its links is

  bool is_even() const { return forth_bandwidth == back_bandwidth; }
  bool is_one_way() const { return back.empty(); }
  uint64_t widest() const { return std::max(forth_bandwidth, back_bandwidth); }
};

struct Panel {
  Point corner;
  Extent size;
  bool inner = false;  // of a package, inside the panel of a box
};

struct Drawing {
  static constexpr size_t kMaxDetailed = 64;  // ranks
  static constexpr size_t kMaxCables = 2500;  // of a grid drawn node by node
  static constexpr size_t kMaxTiles = 256;
  static constexpr size_t kMaxLevelCables = 96;  // of a level of switches to the one below, before it is gathered

  // The ranks of a tile are shown one by one, as cells, unless there are too many.
  static constexpr size_t kMaxCells = 256, kMaxAllCells = 8192;
  static constexpr double kCell = 12, kTilePadding = 6, kTileTitle = 14;
  bool has_cells(const Unit& tile) const;
  static size_t cell_columns(const Unit& tile);
  Point cell_corner(const Unit& tile, size_t rank) const;

  Extent size;
  std::vector<Unit> units = {};
  std::vector<Cable> cables = {};      // by their first link
  std::vector<Panel> panels = {};      // behind all
  std::vector<uint32_t> unit_of = {};  // by node
  size_t ranks = 0;
};

Drawing draw(const Fabric& fabric);

// The cables between units, without paths, by their first link.
std::vector<Cable> cables_between(const Fabric& fabric, const std::vector<uint32_t>& unit_of);

// The size of a node of this name in a drawing, and the name as it is shown there.
Extent node_extent(std::string_view name, bool labelled);
std::string shown_name(std::string_view name);
constexpr double kLabelSize = 11;

}  // namespace banyan::picture
