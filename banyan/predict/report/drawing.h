// Drawing: where a fabric stands on the page of a report, and which links each line of it stands for.
//
// Small fabrics (up to kMaxDetailed ranks, and grids up to kMaxCables cables) are drawn node by node, as
// schedule/picture.h lays them out. Larger ones are gathered into *units* first:
//
//   tiles     a box with its ranks and its own switches (fabric/boxes.h); a fabric of one box is cut into blocks of
//             consecutive ranks, and more than kMaxTiles boxes into blocks of consecutive boxes
//   switches  those that join tiles, level by level; where a level has many cables to the one below, the switches that
//             reach the same units of it become one, so that a pod of a fat tree has one bar above its tiles
//
// Tiles that hang on one bar alone stand together below it, in rows with lanes between the columns, in which their
// cables go up; several such pods stand below the next level in the same way. So a fat tree of 1,024 hosts is 16 pods
// of 8 tiles, and no cable crosses a tile.
//
// Same fabric, same drawing. Complexity O(links log links). Every link is in exactly one edge.
#pragma once

#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::report {

struct Drawing {
  static constexpr size_t kMaxDetailed = 64;  // ranks
  static constexpr size_t kMaxCables = 2500;  // of a grid drawn node by node
  static constexpr size_t kMaxTiles = 256;
  static constexpr size_t kMaxLevelCables = 96;  // of a level of switches to the one below, before it is gathered
  static constexpr size_t kMaxCells = 64, kMaxAllCells = 8192;  // ranks shown one by one: of a tile, of all tiles

  struct Point {
    double x = 0, y = 0;
  };
  struct Unit {
    enum class Kind : uint8_t { rank, tile, switch_ };
    std::string name;
    Kind kind = Kind::rank;
    Point middle;
    double width = 0, height = 0;
    bool labelled = true;
    std::vector<NodeId> ranks;
    size_t switches = 0;
  };
  // All links between two units, or inside of one (a == b, and no path).
  struct Edge {
    uint32_t a = 0, b = 0;
    std::vector<LinkId> forth = {}, back = {};  // from a to b, from b to a; all inside links are `forth`
    std::vector<Point> path = {};               // from a to b
    bool curved = false;                        // the middle one of three points only draws the line to its side
  };
  struct Panel {
    Point corner;
    double width = 0, height = 0;
  };

  double width = 0, height = 0;
  std::vector<Unit> units = {};
  std::vector<Edge> edges = {};        // by their first link
  std::vector<Panel> panels = {};      // behind all
  std::vector<uint32_t> unit_of = {};  // by node
};

Drawing draw(const Fabric& fabric);

}  // namespace banyan::report
