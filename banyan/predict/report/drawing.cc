#include "banyan/predict/report/drawing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "banyan/predict/report/drawing_tiles.h"
#include "banyan/schedule/picture_layout.h"

namespace banyan::report {
namespace {

using picture::Layout;

// A cable along a line of a grid to a node further than the next goes round those between: how far.
double bulge_of(const Layout& layout, NodeId a, NodeId b) {
  if (layout.grid.empty()) return 0;
  size_t axes = 0;
  uint32_t farthest = 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto [low, high] = std::minmax(layout.grid[index(a)][axis], layout.grid[index(b)][axis]);
    axes += high > low ? 1 : 0;
    farthest = std::max(farthest, high - low);
  }
  if (axes != 1 || farthest < 2) return 0;
  const picture::Point from = layout.middle[index(a)], to = layout.middle[index(b)];
  const bool left_is_outside = to.x >= from.x && to.y <= from.y;
  return (left_is_outside ? 1 : -1) * (layout.labelled ? 34 : 12);
}

// Whether `rank` must go round other panels to reach `upper`, a switch outside of its own.
bool goes_round(const Fabric& fabric, const Layout& layout, NodeId rank, NodeId upper) {
  return layout.detour[index(rank)] && !fabric.is_rank(upper) &&
         layout.panel_of[index(upper)] != layout.panel_of[index(rank)];
}

std::vector<Drawing::Point> way_round(const Layout& layout, NodeId rank, NodeId upper) {
  const picture::Point start = layout.middle[index(rank)], way = *layout.detour[index(rank)];
  const picture::Point middle = layout.middle[index(upper)];
  const double reach = layout.extent[index(upper)].width / 2 - 2;
  return {{start.x, start.y},
          {start.x, way.y},
          {way.x, way.y},
          {std::clamp(way.x, middle.x - reach, middle.x + reach), middle.y}};
}

void route(const Fabric& fabric, const Layout& layout, Drawing::Edge& edge) {
  const NodeId a{edge.a}, b{edge.b};
  if (goes_round(fabric, layout, a, b)) {
    edge.path = way_round(layout, a, b);
  } else if (goes_round(fabric, layout, b, a)) {
    edge.path = way_round(layout, b, a);
    std::reverse(edge.path.begin(), edge.path.end());
  } else {
    const picture::Point from = layout.fastening(a, b), to = layout.fastening(b, a);
    edge.path = {{from.x, from.y}, {to.x, to.y}};
    const double bulge = bulge_of(layout, a, b);
    if (bulge == 0) return;
    const double x = to.x - from.x, y = to.y - from.y, length = std::max(1e-9, std::hypot(x, y));
    edge.path.insert(edge.path.begin() + 1,
                     {(from.x + to.x) / 2 + 2 * bulge * y / length, (from.y + to.y) / 2 - 2 * bulge * x / length});
    edge.curved = true;
  }
}

bool names_a_grid(const Fabric& fabric) {
  return fabric.ranks().size() == fabric.nodes().size() && fabric.links().size() <= 2 * Drawing::kMaxCables &&
         !lay_out(fabric, picture::wire(fabric)).grid.empty();
}

Drawing draw_nodes(const Fabric& fabric) {
  const Layout layout = lay_out(fabric, picture::wire(fabric));
  Drawing drawing{.width = layout.size.width, .height = layout.size.height};
  for (const picture::Panel& panel : layout.panels) {
    drawing.panels.push_back(
        {.corner = {panel.corner.x, panel.corner.y}, .width = panel.size.width, .height = panel.size.height});
  }
  for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
    const bool is_rank = fabric.is_rank(NodeId{node});
    drawing.unit_of.push_back(node);
    drawing.units.push_back({.name = fabric.name(NodeId{node}),
                             .kind = is_rank ? Drawing::Unit::Kind::rank : Drawing::Unit::Kind::switch_,
                             .middle = {layout.middle[node].x, layout.middle[node].y},
                             .width = layout.extent[node].width,
                             .height = layout.extent[node].height,
                             .labelled = layout.labelled || !is_rank,
                             .ranks = is_rank ? std::vector{NodeId{node}} : std::vector<NodeId>{},
                             .switches = is_rank ? size_t{0} : size_t{1}});
  }
  gather_edges(fabric, drawing);
  for (Drawing::Edge& edge : drawing.edges) route(fabric, layout, edge);
  return drawing;
}

}  // namespace

void gather_edges(const Fabric& fabric, Drawing& drawing) {
  std::map<std::pair<uint32_t, uint32_t>, size_t> known;
  for (uint32_t number = 0; number < fabric.links().size(); ++number) {
    const Link& link = fabric.link(LinkId{number});
    const uint32_t from = drawing.unit_of[index(link.from)], to = drawing.unit_of[index(link.to)];
    const auto [entry, is_new] = known.try_emplace(std::minmax(from, to), drawing.edges.size());
    if (is_new) drawing.edges.push_back({.a = from, .b = to, .forth = {}, .back = {}, .path = {}});
    Drawing::Edge& edge = drawing.edges[entry->second];
    (from == edge.a ? edge.forth : edge.back).push_back(LinkId{number});
  }
}

Drawing draw(const Fabric& fabric) {
  const bool detailed =
      fabric.ranks().size() <= Drawing::kMaxDetailed && fabric.links().size() <= 2 * Drawing::kMaxCables;
  return detailed || names_a_grid(fabric) ? draw_nodes(fabric) : draw_tiles(fabric);
}

}  // namespace banyan::report
