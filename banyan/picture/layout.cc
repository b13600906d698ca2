// Small fabrics, node by node: where each node stands, then the way of each cable.
#include "banyan/picture/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>

namespace banyan::picture {
namespace {

constexpr double kGap = 8;  // between nodes in a row
constexpr double kPanelPadding = 16;
constexpr double kPanelGap = 22;
constexpr double kLevelHeight = 78;   // from one level of switches to the next
constexpr double kWidestBar = 4000;   // of a switch that spans what it joins
constexpr double kArrowRoom = 30;     // between neighbours whose cable carries an arrow head
constexpr size_t kMaxNameShown = 14;  // characters

class LayoutMaker {
 public:
  explicit LayoutMaker(const Fabric& fabric) : fabric_(fabric), boxes_(boxes_to_draw(fabric)) {
    drawing_.ranks = fabric.ranks().size();
    labelled_ = fabric.ranks().size() <= Drawing::kMaxDetailed;
    detour_.resize(fabric.nodes().size());
    is_bar_.resize(fabric.nodes().size(), false);
    for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
      const bool is_rank = fabric.is_rank(NodeId{node});
      const bool labelled = labelled_ || !is_rank;
      drawing_.unit_of.push_back(node);
      drawing_.units.push_back({.name = fabric.name(NodeId{node}),
                                .kind = is_rank ? Unit::Kind::rank : Unit::Kind::switch_,
                                .size = node_extent(fabric.name(NodeId{node}), labelled),
                                .labelled = labelled,
                                .ranks = is_rank ? std::vector{NodeId{node}} : std::vector<NodeId>{},
                                .switches = is_rank ? size_t{0} : size_t{1}});
    }
    drawing_.cables = cables_between(fabric, drawing_.unit_of);
    for (const Cable& cable : drawing_.cables) has_arrows_ |= !cable.is_even();
  }

  Drawing make() && {
    const bool has_switches = fabric_.ranks().size() < fabric_.nodes().size();
    const auto groups = groups_of_boxes(fabric_, boxes_);
    if (!groups.empty()) {
      place_groups(groups);
    } else if (has_switches || boxes_.count() > 1) {
      place_boxes();
    } else if (!place_on_grid()) {
      const std::vector<NodeId> all(fabric_.ranks().begin(), fabric_.ranks().end());
      drawing_.size = place_direct(all, {0, 0}, {});
    }
    for (const auto& [first, members] : packages_) {
      const Point from = unit(members.front()).corner(), to = unit(members.back()).corner();
      drawing_.panels.push_back(
          {.corner = {from.x - 8, from.y - 8},
           .size = {to.x - from.x + unit(members.back()).size.width + 16, unit(members.back()).size.height + 16},
           .inner = true});
    }
    for (Cable& cable : drawing_.cables) route(cable);
    return std::move(drawing_);
  }

 private:
  // One box: what it holds and how large it becomes. Placing it needs the corner first.
  struct Content {
    std::vector<NodeId> ranks, switches;
    bool on_circle = false;
    bool has_hub = false;  // the only switch stands in the middle of the circle
    bool switches_below = false;
  };

  // How the switches and the ranks of a group stand around its middle: each kind on so much of its circle, centred
  // where the group faces away from the other groups.
  struct GroupShape {
    double switches, ranks;
    double room;  // how much wider than needed the circle of switches is
  };

  Unit& unit(NodeId node) { return drawing_.units[index(node)]; }
  const Unit& unit(NodeId node) const { return drawing_.units[index(node)]; }

  bool place_on_grid();
  void place_groups(const std::vector<std::vector<uint32_t>>& groups);
  Ring ring_of_groups(const std::vector<std::vector<uint32_t>>& groups, const GroupShape& shape);
  size_t hidden_cables() const;
  Extent place_group(const std::vector<uint32_t>& group, const GroupShape& shape, Point middle, double turn);
  Extent place_direct(const std::vector<NodeId>& nodes, Point corner, const std::vector<NodeId>& inside);
  Extent place_packages(const std::vector<std::vector<NodeId>>& packages, Point corner);
  Extent place_quads(const std::vector<std::vector<NodeId>>& quads, Point corner);
  bool spread_out(const std::vector<NodeId>& nodes);
  Extent place_on_circle(const std::vector<NodeId>& nodes, Point corner, const std::vector<NodeId>& inside);
  Extent place_row(const std::vector<NodeId>& nodes, Point corner, double width);
  Extent row_extent(const std::vector<NodeId>& nodes) const;
  Extent place_content(const Content& content, Point corner, bool flipped);
  Content content_of(uint32_t box) const;
  std::vector<std::vector<NodeId>> upper_levels() const;
  size_t rows_of_panels(Extent panel, double gap, size_t levels) const;
  void place_boxes();
  double spacing(const std::vector<NodeId>& nodes) const;

  void route(Cable& cable) const;
  double bulge_of(const Cable& cable) const;
  bool goes_round(NodeId rank, NodeId upper) const;
  std::vector<Point> way_round(NodeId rank, NodeId upper) const;
  Point fastening(NodeId node, NodeId other) const;

  const Fabric& fabric_;
  fabric::Boxes boxes_;
  Drawing drawing_;
  bool labelled_ = true, has_arrows_ = false;
  double row_width_ = 0;                            // of all panels' rows
  std::map<NodeId, std::vector<NodeId>> packages_;  // by their first rank
  // By node: the ranks of a row of panels that is not next to the switches leave their panel at this height, and go
  // past the panels between at this x.
  std::vector<std::optional<Point>> detour_;
  std::vector<bool> is_bar_;                        // by node: a switch drawn as wide as what it joins
  std::vector<std::array<uint32_t, 3>> grid_ = {};  // by node, where names tell it
};

double LayoutMaker::spacing(const std::vector<NodeId>& nodes) const {
  double widest = 0;
  for (const NodeId node : nodes) widest = std::max(widest, unit(node).size.width);
  return widest + (labelled_ ? kGap : 4);
}

bool LayoutMaker::place_on_grid() {
  grid_ = grid_places(fabric_);
  if (grid_.empty()) return false;
  std::array<uint32_t, 3> last{};
  for (const auto& place : grid_) {
    for (size_t axis = 0; axis < 3; ++axis) last[axis] = std::max(last[axis], place[axis]);
  }
  const double depth = last[2] + 1;
  const std::vector<NodeId> all(fabric_.ranks().begin(), fabric_.ranks().end());
  // Each node of the third dimension takes a step of its own inside the cell, so that none hides another.
  const double step = labelled_ ? 40 : 16;
  const double cell_x = std::max(spacing(all) + (labelled_ ? 34 : 12), depth * step + (depth > 1 ? step : 0));
  const double cell_y = std::max(labelled_ ? 74.0 : 22.0, depth * step * 0.75 + (depth > 1 ? step : 0));
  const double margin = labelled_ ? 50 : 24;
  for (size_t i = 0; i < grid_.size(); ++i) {
    const auto& [x, y, z] = grid_[i];
    unit(fabric_.ranks()[i]).middle = {margin + x * cell_x + z * step,
                                       margin + y * cell_y + (last[2] - z) * step * 0.75};
  }
  drawing_.size = {2 * margin + last[0] * cell_x + last[2] * step,
                   2 * margin + last[1] * cell_y + last[2] * step * 0.75};
  return true;
}

// Groups on a circle, so that the cables between them cross its empty middle; all are turned alike, each as seen from
// the middle. A gap towards it lets cables out, but needs room: the smallest shape by which no cable passes behind a
// node, else that by which the fewest do.
void LayoutMaker::place_groups(const std::vector<std::vector<uint32_t>>& groups) {
  constexpr GroupShape kShapes[] = {{1, 1, 1},       {0.8, 0.7, 1},   {0.7, 0.6, 1},
                                    {0.8, 0.7, 1.5}, {0.7, 0.6, 1.5}, {0.7, 0.6, 2}};
  constexpr int kTurns = 48;
  const double count = static_cast<double>(groups.size()), first = groups.size() == 2 ? 0.5 : 0;
  const auto place = [&](const GroupShape& shape, const Ring& ring, int turn) {
    for (size_t i = 0; i < groups.size(); ++i) {
      const double facing = groups.size() == 1 ? 0.5 : (static_cast<double>(i) + first) / count;
      place_group(groups[i], shape, ring.middles[i], facing + static_cast<double>(turn) / kTurns);
    }
  };
  size_t least = SIZE_MAX, best_shape = 0;
  int best_turn = 0;
  for (size_t shape = 0; shape < std::size(kShapes) && least > 0; ++shape) {
    const Ring ring = ring_of_groups(groups, kShapes[shape]);
    for (int turn = 0; turn < kTurns && least > 0; ++turn) {
      place(kShapes[shape], ring, turn);
      const size_t hidden = hidden_cables();
      if (hidden >= least) continue;
      least = hidden;
      best_shape = shape;
      best_turn = turn;
    }
    if (groups.size() == 1) break;
  }
  const Ring ring = ring_of_groups(groups, kShapes[best_shape]);
  place(kShapes[best_shape], ring, best_turn);
  drawing_.size = ring.size;
  const Extent panel = ring.thing;
  for (const Point middle : ring.middles) {
    const Point corner{middle.x - panel.width / 2, middle.y - panel.height / 2};
    if (groups.size() > 1) drawing_.panels.push_back({.corner = corner, .size = panel});
  }
}

Ring LayoutMaker::ring_of_groups(const std::vector<std::vector<uint32_t>>& groups, const GroupShape& shape) {
  Extent panel;
  for (const auto& group : groups) {
    const Extent size = place_group(group, shape, {0, 0}, 0);
    panel = {std::max(panel.width, size.width + kPanelPadding), std::max(panel.height, size.height + kPanelPadding)};
  }
  return ring_of(groups.size(), panel, {.turn = groups.size() == 2 ? 0.5 : 0, .gap = kPanelGap});
}

// How often a straight cable passes behind a node, or nearly so.
size_t LayoutMaker::hidden_cables() const {
  size_t found = 0;
  for (const Cable& cable : drawing_.cables) {
    const Point from = drawing_.units[cable.a].middle, to = drawing_.units[cable.b].middle;
    for (uint32_t node = 0; node < drawing_.units.size(); ++node) {
      const Unit& other = drawing_.units[node];
      const Extent thing{other.size.width + kGap / 2, other.size.height + kGap / 2};
      found += node != cable.a && node != cable.b && passes_through(from, to, other.middle, thing) ? 1 : 0;
    }
  }
  return found;
}

// The switches of the group on a circle, and around it on a wider one the ranks of each. Gives the room of the circles.
Extent LayoutMaker::place_group(const std::vector<uint32_t>& group, const GroupShape& shape, Point middle,
                                double turn) {
  std::vector<NodeId> ranks, switches;
  for (const uint32_t box : group) ranks.insert(ranks.end(), boxes_.ranks[box].begin(), boxes_.ranks[box].end());
  for (uint32_t node = 0; node < fabric_.nodes().size(); ++node) {
    const bool is_ours = std::ranges::find(group, boxes_.box_of[node]) != group.end();
    if (is_ours && !fabric_.is_rank(NodeId{node})) switches.push_back(NodeId{node});
  }
  constexpr double kBetweenCircles = 84;
  const auto around = [&](const std::vector<NodeId>& nodes, double part) {
    return static_cast<double>(nodes.size()) * spacing(nodes) * 1.15 / (2 * std::numbers::pi * part);
  };
  const double inner = switches.size() == 1 ? 0 : shape.room * std::max(around(switches, shape.switches), 60.0);
  const double outer = std::max(around(ranks, shape.ranks), inner + kBetweenCircles);
  const auto put = [&](const std::vector<NodeId>& nodes, double part, double radius) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(nodes.size()) - 0.5;
      const double angle = 2 * std::numbers::pi * (share * part + turn);
      unit(nodes[i]).middle = {middle.x + radius * std::sin(angle), middle.y - radius * std::cos(angle)};
    }
  };
  put(ranks, shape.ranks, outer);
  put(switches, shape.switches, inner == 0 ? 0 : std::max(inner, outer - 2 * kBetweenCircles));
  return {2 * outer + unit(ranks.front()).size.width + 8, 2 * outer + 32};
}

// Ranks with cables between them.
Extent LayoutMaker::place_direct(const std::vector<NodeId>& nodes, Point corner, const std::vector<NodeId>& inside) {
  if (inside.empty() && labelled_) {
    if (const auto quads = quads_of(fabric_, nodes); !quads.empty()) return place_quads(quads, corner);
    if (const auto packages = packages_of(fabric_, nodes); !packages.empty()) return place_packages(packages, corner);
  }
  const Extent circle = place_on_circle(nodes, corner, inside);
  const bool is_alone = inside.empty() && labelled_ && nodes.size() == drawing_.units.size();
  return is_alone && spread_out(nodes) ? drawing_.size : circle;
}

// From the circle on which they stand to where a graph of no known shape has fewer crossings. Of all nodes.
bool LayoutMaker::spread_out(const std::vector<NodeId>& nodes) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const Cable& cable : drawing_.cables) pairs.emplace_back(cable.a, cable.b);
  if (looks_alike_all_around(nodes.size(), pairs)) return false;
  Ring ring;
  Point high;
  Extent thing;
  for (const NodeId node : nodes) {
    const Unit& each = unit(node);
    ring.middles.push_back(each.middle);
    thing = {std::max(thing.width, each.size.width), std::max(thing.height, each.size.height)};
    high = {std::max(high.x, each.middle.x), std::max(high.y, each.middle.y)};
  }
  const double room = has_arrows_ ? kArrowRoom : kArrowRoom / 2;
  thing = {thing.width + room, thing.height + room};
  ring.size = {high.x + thing.width / 2, high.y + thing.height / 2};
  const Ring best = spread(nodes.size(), pairs, thing, ring);
  for (size_t i = 0; i < nodes.size(); ++i) unit(nodes[i]).middle = best.middles[i];
  drawing_.size = best.size;
  return true;
}

Extent LayoutMaker::place_packages(const std::vector<std::vector<NodeId>>& packages, Point corner) {
  Extent largest;
  for (const auto& package : packages) {
    const Extent row = row_extent(package);
    largest = {std::max(largest.width, row.width + 22 * static_cast<double>(package.size() - 1) + kGap),
               row.height + 16};
  }
  // In one box alone, a cable to the package after the next passes the one between. More boxes would become too large.
  const double part = 2 * std::numbers::pi / static_cast<double>(packages.size());
  const bool has_room = boxes_.count() == 1 && packages.size() > 4;
  const double least_radius = has_room ? 0.75 * std::hypot(largest.width, largest.height) / (1 - std::cos(part)) : 0;
  // In boxes below a switch no two packages stand above one another.
  const Ring ring = ring_of(packages.size(), largest,
                            {.turn = boxes_.count() > 1 ? 0.25 : 0.5, .gap = 3 * kGap, .least_radius = least_radius});
  for (size_t i = 0; i < packages.size(); ++i) {
    const Point place{corner.x + ring.middles[i].x - largest.width / 2,
                      corner.y + ring.middles[i].y - largest.height / 2};
    place_row(packages[i], {place.x, place.y + 8}, largest.width);
    packages_[packages[i].front()] = packages[i];
  }
  return ring.size;
}

// Two faces of a cube side by side, the second a little higher, so that the cables between them run alike. The faces
// lean, so that no rank stands right above another and cables from above stay visible.
Extent LayoutMaker::place_quads(const std::vector<std::vector<NodeId>>& quads, Point corner) {
  const double side = std::max(96.0, spacing(quads[0]) * 1.9), rise = 46, lean = side * 0.24;
  const double half_width = spacing(quads[0]) / 2, half_height = 16;
  for (size_t quad = 0; quad < 2; ++quad) {
    for (size_t i = 0; i < 4; ++i) {
      const bool right = i == 1 || i == 2, low = i >= 2;
      const double x = static_cast<double>(quad) * side * 1.6 + (right ? side : 0) + (low ? lean : 0);
      const double y = (quad == 0 ? rise : 0) + (low ? side : 0);
      unit(quads[quad][i]).middle = {corner.x + half_width + x, corner.y + half_height + y};
    }
  }
  return {side * 2.6 + lean + 2 * half_width, side + rise + 2 * half_height};
}

Extent LayoutMaker::place_on_circle(const std::vector<NodeId>& nodes, Point corner, const std::vector<NodeId>& inside) {
  const double count = static_cast<double>(nodes.size());
  const double around = count * (spacing(nodes) + (has_arrows_ && labelled_ ? kArrowRoom : 0)) / (2 * std::numbers::pi);
  // Sideways, for cables to pass between; alike in all boxes.
  const std::vector<NodeId> all(fabric_.ranks().begin(), fabric_.ranks().end());
  const double least_step = boxes_.count() > 1 ? 0.75 * spacing(all) : 0;
  const double radius =
      std::max({around * (labelled_ ? 1.15 : 1.0), labelled_ ? 92.0 : 26.0,
                inside.empty() ? 0.0 : row_extent(inside).width / 2 + 50, least_step * (count - 1) / 2});
  const double half_width = unit(nodes.front()).size.width / 2 + 4;
  const Point middle{corner.x + radius + half_width, corner.y + radius + 16};
  // Level on top; but where cables come down from a switch above, no two nodes may stand at the same x.
  const double turn =
      boxes_.count() > 1 ? (nodes.size() % 2 == 0 ? -0.25 : -0.5) : (nodes.size() % 2 == 0 ? -0.5 : 0.0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(i) + turn) / count - std::numbers::pi / 2;
    unit(nodes[i]).middle = {middle.x + radius * std::cos(angle), middle.y + radius * std::sin(angle)};
  }
  if (boxes_.count() > 1) {
    // Sideways at even distances, so that no cable from above passes behind a node further up.
    std::vector<NodeId> from_left = nodes;
    std::ranges::sort(from_left, {}, [&](NodeId a) { return unit(a).middle.x; });
    for (size_t i = 0; i < nodes.size(); ++i) {
      unit(from_left[i]).middle.x = middle.x + radius * (2 * static_cast<double>(i) / (count - 1) - 1);
    }
  }
  if (!inside.empty()) {
    const Extent row = row_extent(inside);
    place_row(inside, {middle.x - row.width / 2, middle.y - row.height / 2}, row.width);
    is_bar_[index(inside.front())] = false;
  }
  return {2 * (radius + half_width), 2 * (radius + 16)};
}

Extent LayoutMaker::row_extent(const std::vector<NodeId>& nodes) const {
  if (nodes.empty()) return {};
  double height = 0;
  for (const NodeId node : nodes) height = std::max(height, unit(node).size.height);
  return {spacing(nodes) * static_cast<double>(nodes.size()), height};
}

// Evenly over the width; a single switch becomes a bar as wide as what it joins.
Extent LayoutMaker::place_row(const std::vector<NodeId>& nodes, Point corner, double width) {
  const Extent row = row_extent(nodes);
  const double step = width / static_cast<double>(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    unit(nodes[i]).middle = {corner.x + (static_cast<double>(i) + 0.5) * step, corner.y + row.height / 2};
  }
  if (nodes.size() == 1 && !fabric_.is_rank(nodes.front())) {
    Extent& bar = unit(nodes.front()).size;
    bar.width = std::max(bar.width, std::min(width - 2, kWidestBar));
    is_bar_[index(nodes.front())] = true;
  }
  return {width, row.height};
}

LayoutMaker::Content LayoutMaker::content_of(uint32_t box) const {
  Content content{.ranks = boxes_.ranks[box], .switches = {}};
  bool goes_up = false;
  for (uint32_t node = 0; node < fabric_.nodes().size(); ++node) {
    if (fabric_.is_rank(NodeId{node}) || boxes_.box_of[node] != box) continue;
    content.switches.push_back(NodeId{node});
    for (const LinkId id : fabric_.out_links(NodeId{node})) goes_up |= !fabric_.is_rank(fabric_.link(id).to);
  }
  for (const NodeId rank : content.ranks) {
    for (const LinkId id : fabric_.out_links(rank)) {
      const NodeId to = fabric_.link(id).to;
      content.on_circle |= fabric_.is_rank(to) && boxes_.box_of[index(to)] == box && content.ranks.size() > 2;
    }
  }
  // A lone hub of many looks best in their middle.
  content.has_hub = !content.on_circle && boxes_.count() == 1 && content.ranks.size() > 12 &&
                    content.switches.size() == 1 && !goes_up;
  content.on_circle |= content.has_hub;
  content.switches_below = boxes_.count() > 1 && !goes_up;
  return content;
}

Extent LayoutMaker::place_content(const Content& content, Point corner, bool flipped) {
  if (content.has_hub) return place_on_circle(content.ranks, corner, content.switches);
  const Extent ranks = row_extent(content.ranks), switches = row_extent(content.switches);
  const bool below = content.switches_below != flipped;
  if (content.on_circle) {
    const double room = content.switches.empty() ? 0 : switches.height + 22;
    const Extent circle = place_direct(content.ranks, {corner.x, corner.y + (below ? 0 : room)}, {});
    const double switches_y = below ? corner.y + circle.height + 22 : corner.y;
    if (room > 0) place_row(content.switches, {corner.x, switches_y}, circle.width);
    return {circle.width, circle.height + room};
  }
  const double width = std::max({ranks.width, switches.width, row_width_});
  const double between = content.switches.empty() ? 0 : std::max(26.0, (labelled_ ? 0.1 : 0.06) * width + 18);
  const double ranks_y = below || content.switches.empty() ? corner.y : corner.y + switches.height + between;
  place_row(content.ranks, {corner.x, ranks_y}, width);
  const double switches_y = below ? corner.y + ranks.height + between : corner.y;
  if (!content.switches.empty()) place_row(content.switches, {corner.x, switches_y}, width);
  return {width, ranks.height + between + switches.height};
}

// The switches of no box by their distance from the boxes, the nearest first.
std::vector<std::vector<NodeId>> LayoutMaker::upper_levels() const {
  std::vector<uint32_t> distance(fabric_.nodes().size(), UINT32_MAX);
  std::vector<NodeId> queue;
  for (uint32_t node = 0; node < distance.size(); ++node) {
    if (boxes_.box_of[node] == fabric::Boxes::kNone) continue;
    distance[node] = 0;
    queue.push_back(NodeId{node});
  }
  std::vector<std::vector<NodeId>> levels;
  for (size_t i = 0; i < queue.size(); ++i) {
    const auto visit = [&](NodeId next) {
      if (distance[index(next)] != UINT32_MAX) return;
      distance[index(next)] = distance[index(queue[i])] + 1;
      levels.resize(std::max<size_t>(levels.size(), distance[index(next)]));
      levels[distance[index(next)] - 1].push_back(next);
      queue.push_back(next);
    };
    for (const LinkId id : fabric_.out_links(queue[i])) visit(fabric_.link(id).to);
    for (const LinkId id : fabric_.in_links(queue[i])) visit(fabric_.link(id).from);
  }
  for (auto& level : levels) std::ranges::sort(level);
  // A switch with no cable at all stands with the lowest.
  for (uint32_t node = 0; node < distance.size(); ++node) {
    if (distance[node] != UINT32_MAX) continue;
    levels.resize(std::max<size_t>(levels.size(), 1));
    levels.front().push_back(NodeId{node});
  }
  return levels;
}

// One row below the switches, or as many rows above them as below, whatever comes nearest to a slide's shape.
size_t LayoutMaker::rows_of_panels(Extent panel, double gap, size_t levels) const {
  const auto misfit = [&](size_t rows) {
    const size_t columns = (boxes_.count() + rows - 1) / rows;
    const double width = static_cast<double>(columns) * (panel.width + gap);
    const double height = static_cast<double>(rows) * (panel.height + gap) + static_cast<double>(levels) * kLevelHeight;
    return std::abs(std::log(width / height / 2.4)) + (rows > 2 ? 0.4 : 0);  // bundles are hard to follow
  };
  size_t rows = 1;
  for (size_t more = 2; levels <= 1 && more <= boxes_.count(); more += 2) {
    if (misfit(more) < misfit(rows)) rows = more;
  }
  return rows;
}

void LayoutMaker::place_boxes() {
  const std::vector<std::vector<NodeId>> levels = upper_levels();
  std::vector<Content> contents;
  Extent panel;  // all alike
  for (uint32_t box = 0; box < boxes_.count(); ++box) {
    contents.push_back(content_of(box));
    const Extent size = place_content(contents.back(), {0, 0}, false);
    panel = {std::max(panel.width, size.width), std::max(panel.height, size.height)};
    if (!contents.back().on_circle) row_width_ = std::max(row_width_, size.width);
  }
  const double padding = boxes_.count() > 1 ? (labelled_ ? kPanelPadding : kPanelPadding / 2) : 0;
  const double gap = labelled_ ? kPanelGap : kPanelGap / 2;
  panel = {panel.width + 2 * padding, panel.height + 2 * padding};

  const double upper_height = static_cast<double>(levels.size()) * kLevelHeight;
  const size_t rows = rows_of_panels(panel, gap, levels.size());
  const size_t columns = (boxes_.count() + rows - 1) / rows, rows_above = rows / 2;
  const double bundle_room = rows > 2 ? gap : 0;
  const double panels_width = bundle_room + static_cast<double>(columns) * (panel.width + gap) - gap;
  double width = panels_width;
  for (const auto& level : levels) width = std::max(width, row_extent(level).width);
  const double left = (width - panels_width) / 2 + bundle_room;
  for (uint32_t box = 0; box < boxes_.count(); ++box) {
    const size_t row = box / columns, column = box % columns;
    const bool above = row < rows_above;
    const Point corner{left + static_cast<double>(column) * (panel.width + gap),
                       static_cast<double>(row) * (panel.height + gap) + (above ? 0 : upper_height)};
    // Circles and rows stand in the middle of their panel.
    const Extent size = place_content(contents[box], {0, 0}, above);
    place_content(contents[box],
                  {corner.x + (panel.width - size.width) / 2, corner.y + (panel.height - size.height) / 2}, above);
    if (boxes_.count() > 1) drawing_.panels.push_back({.corner = corner, .size = panel});
    if (row + 1 == rows_above || row == rows_above) continue;
    const Point way{corner.x - gap / 2, above ? corner.y + panel.height + gap / 2 : corner.y - gap / 2};
    for (const NodeId rank : boxes_.ranks[box]) detour_[index(rank)] = way;
  }
  // Between two rows of panels the levels stand in the middle, else at the top.
  const double base =
      rows_above > 0 ? static_cast<double>(rows_above) * (panel.height + gap) + (kLevelHeight - gap - 22) / 2 : 8;
  for (size_t level = 0; level < levels.size(); ++level) {
    place_row(levels[level], {0, base + static_cast<double>(levels.size() - 1 - level) * kLevelHeight}, width);
  }
  drawing_.size = {width, static_cast<double>(rows) * (panel.height + gap) - gap + upper_height};
}

// A cable along a line of the grid to a node further than the next goes round those between: how far.
double LayoutMaker::bulge_of(const Cable& cable) const {
  if (grid_.empty()) return 0;
  size_t axes = 0;
  uint32_t farthest = 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto [low, high] = std::minmax(grid_[cable.a][axis], grid_[cable.b][axis]);
    axes += high > low ? 1 : 0;
    farthest = std::max(farthest, high - low);
  }
  if (axes != 1 || farthest < 2) return 0;
  const Point from = drawing_.units[cable.a].middle, to = drawing_.units[cable.b].middle;
  const bool left_is_outside = to.x >= from.x && to.y <= from.y;
  return (left_is_outside ? 1 : -1) * (labelled_ ? 34 : 12);
}

// Whether `rank` must go round other panels to reach `upper`, a switch outside of its own.
bool LayoutMaker::goes_round(NodeId rank, NodeId upper) const {
  return detour_[index(rank)] && !fabric_.is_rank(upper) && boxes_.box_of[index(upper)] != boxes_.box_of[index(rank)];
}

std::vector<Point> LayoutMaker::way_round(NodeId rank, NodeId upper) const {
  const Point start = unit(rank).middle, way = *detour_[index(rank)], middle = unit(upper).middle;
  const double reach = unit(upper).size.width / 2 - 2;
  return {start, {start.x, way.y}, way, {std::clamp(way.x, middle.x - reach, middle.x + reach), middle.y}};
}

// Where a cable to `other` is fastened: straight above or below it as far as a bar goes, else at the middle.
Point LayoutMaker::fastening(NodeId node, NodeId other) const {
  const Point own = unit(node).middle, far = unit(other).middle;
  const double own_reach = unit(node).size.width / 2 - 4, far_reach = unit(other).size.width / 2 - 4;
  if (!is_bar_[index(node)] || own_reach <= far_reach) return own;
  return {std::clamp(far.x, own.x - own_reach, own.x + own_reach), own.y};
}

void LayoutMaker::route(Cable& cable) const {
  const NodeId a{cable.a}, b{cable.b};
  if (goes_round(a, b)) {
    cable.path = way_round(a, b);
  } else if (goes_round(b, a)) {
    cable.path = way_round(b, a);
    std::ranges::reverse(cable.path);
  } else {
    const Point from = fastening(a, b), to = fastening(b, a);
    cable.path = {from, to};
    const double bulge = bulge_of(cable);
    if (bulge == 0) return;
    const double x = to.x - from.x, y = to.y - from.y, length = std::max(1e-9, std::hypot(x, y));
    const Point top{(from.x + to.x) / 2 + 2 * bulge * y / length, (from.y + to.y) / 2 - 2 * bulge * x / length};
    cable.path.insert(cable.path.begin() + 1, top);
    cable.curved = true;
  }
}

}  // namespace

std::string shown_name(std::string_view name) { return shortened(name, kMaxNameShown); }

Extent node_extent(std::string_view name, bool labelled) {
  if (!labelled) return {10, 10};
  return {std::max(28.0, text_width(shown_name(name), kLabelSize) + 12), 22};
}

Drawing lay_out_nodes(const Fabric& fabric) { return LayoutMaker(fabric).make(); }

}  // namespace banyan::picture
