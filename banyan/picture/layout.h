// The halves of drawing.h: fabrics node by node, and fabrics gathered into tiles.
#pragma once

#include "banyan/fabric/boxes.h"
#include "banyan/picture/drawing.h"

namespace banyan::picture {

Drawing lay_out_nodes(const Fabric& fabric);  // layout.cc
Drawing lay_out_tiles(const Fabric& fabric);  // tiles.cc

// The rest of groups.cc: which things are joined to one another.

// Parts things 0 .. count - 1 into cliques: each thing goes to the first clique of which it knows every member. `pairs`
// are in any order and direction.
std::vector<std::vector<uint32_t>> cliques_of(size_t count, const std::vector<std::pair<uint32_t, uint32_t>>& pairs);
// The boxes of the fabric (fabric/boxes.h). If it is one box, and its switches, each with ranks of its own, are joined
// in several cliques of three and more, as the routers of a dragonfly with a host each, every switch is a box.
fabric::Boxes boxes_to_draw(const Fabric& fabric);
// Boxes by cliques of their own switches, where cables between these are all that joins boxes; else empty.
std::vector<std::vector<uint32_t>> groups_of_boxes(const Fabric& fabric, const fabric::Boxes& boxes);
// The ranks of one package each: those joined by the widest cables, where these make groups of two to four; else empty.
std::vector<std::vector<NodeId>> packages_of(const Fabric& fabric, const std::vector<NodeId>& ranks);
// Two quads, four ranks each of which all are joined, rank i of the first joined to rank i of the second; else empty.
std::vector<std::vector<NodeId>> quads_of(const Fabric& fabric, const std::vector<NodeId>& ranks);

// The places of all ranks in a grid, indexed by rank, if their names tell them ("x2y3z1" -> {2, 3, 1}) and there are no
// switches; else empty.
std::vector<std::array<uint32_t, 3>> grid_places(const Fabric& fabric);

// The middles of `count` things of this size around a circle so that none touches another, the first at the top or
// `turn` steps further, with a gap between them; the extent of all, whose corner is {0, 0}; and that of a thing.
struct Ring {
  std::vector<Point> middles = {};
  Extent size = {};
  Extent thing = {};
};
struct RingShape {
  double turn = 0, gap = 0, least_radius = 0;
};
Ring ring_of(size_t count, Extent thing, RingShape shape);
// True if every thing is joined to those at the same distances around the circle: a ring, a full mesh, a circulant.
bool looks_alike_all_around(size_t count, const std::vector<std::pair<uint32_t, uint32_t>>& pairs);

// spread.cc: things of this size so that those few hops apart in the graph are near one another, by stress
// majorization as Graphviz's neato does it, from several starts; or as they stand at the start, where that has fewer
// crossings and fewer lines behind things. Costs O(count^2 + pairs * (pairs + count)) a start.
Ring spread(size_t count, const std::vector<std::pair<uint32_t, uint32_t>>& pairs, Extent thing, Ring start);
// True if the line passes behind a thing of this size.
bool passes_through(Point from, Point to, Point middle, Extent thing);

}  // namespace banyan::picture
