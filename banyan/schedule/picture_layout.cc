#include "banyan/schedule/picture_layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

namespace banyan::picture {
namespace {

constexpr double kGap = 8;  // between nodes in a row
constexpr double kPanelPadding = 16;
constexpr double kPanelGap = 22;
constexpr double kLevelHeight = 78;  // from one level of switches to the next
constexpr double kWidestBar = 4000;  // of a switch that spans what it joins

// "x2y3z1" -> {2, 3, 1}; one or two dimensions less are zero.
std::optional<std::array<uint32_t, 3>> grid_place(std::string_view name) {
  std::array<uint32_t, 3> place{};
  size_t axes = 0;
  for (const char axis : {'x', 'y', 'z'}) {
    if (name.empty() && axes >= 2) break;
    if (name.empty() || name.front() != axis) return std::nullopt;
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), place[axes]);
    if (error != std::errc() || place[axes] > kMaxNodes) return std::nullopt;
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    ++axes;
  }
  return name.empty() ? std::optional(place) : std::nullopt;
}

class LayoutMaker {
 public:
  LayoutMaker(const Fabric& fabric, const Wiring& wiring)
      : fabric_(fabric), wiring_(wiring), boxes_(find_boxes(fabric)) {
    layout_.labelled = fabric.ranks().size() <= kMaxLabelled;
    layout_.middle.resize(fabric.nodes().size());
    layout_.detour.resize(fabric.nodes().size());
    layout_.panel_of = boxes_.box_of;
    layout_.is_bar.resize(fabric.nodes().size(), false);
    for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
      const bool labelled = layout_.labelled || !fabric.is_rank(NodeId{node});
      layout_.extent.push_back(node_extent(fabric.name(NodeId{node}), labelled));
    }
  }

  Layout make() && {
    const bool has_switches = fabric_.ranks().size() < fabric_.nodes().size();
    if (has_switches || boxes_.count() > 1) {
      place_boxes();
    } else if (!place_on_grid()) {
      const std::vector<NodeId> all(fabric_.ranks().begin(), fabric_.ranks().end());
      layout_.size = place_on_circle(all, {0, 0}, {});
    }
    return std::move(layout_);
  }

 private:
  // One box: what it holds and how large it becomes. Placing it needs the corner first.
  struct Content {
    std::vector<NodeId> ranks, switches;
    bool on_circle = false;
    bool has_hub = false;  // the only switch stands in the middle of the circle
    bool switches_below = false;
  };

  bool place_on_grid();
  Extent place_on_circle(const std::vector<NodeId>& nodes, Point corner, const std::vector<NodeId>& inside);
  Extent place_row(const std::vector<NodeId>& nodes, Point corner, double width);
  Extent row_extent(const std::vector<NodeId>& nodes) const;
  Extent place_content(const Content& content, Point corner, bool flipped);
  Content content_of(uint32_t box) const;
  std::vector<std::vector<NodeId>> upper_levels() const;
  void place_boxes();
  double spacing(const std::vector<NodeId>& nodes) const;

  const Fabric& fabric_;
  const Wiring& wiring_;
  Boxes boxes_;
  Layout layout_;
  double row_width_ = 0;  // of all panels' rows
};

double LayoutMaker::spacing(const std::vector<NodeId>& nodes) const {
  double widest = 0;
  for (const NodeId node : nodes) widest = std::max(widest, layout_.extent[index(node)].width);
  return widest + (layout_.labelled ? kGap : 4);
}

bool LayoutMaker::place_on_grid() {
  std::vector<std::array<uint32_t, 3>> places;
  std::array<uint32_t, 3> last{};
  for (const NodeId rank : fabric_.ranks()) {
    const auto place = grid_place(fabric_.name(rank));
    if (!place) return false;
    for (size_t axis = 0; axis < 3; ++axis) last[axis] = std::max(last[axis], (*place)[axis]);
    places.push_back(*place);
  }
  const double depth = last[2] + 1;
  const std::vector<NodeId> all(fabric_.ranks().begin(), fabric_.ranks().end());
  // Each node of the third dimension takes a step of its own inside the cell, so that none hides another.
  const double step = layout_.labelled ? 40 : 16;
  const double cell_x = std::max(spacing(all) + (layout_.labelled ? 34 : 12), depth * step + (depth > 1 ? step : 0));
  const double cell_y = std::max(layout_.labelled ? 74.0 : 22.0, depth * step * 0.75 + (depth > 1 ? step : 0));
  const double margin = layout_.labelled ? 50 : 24;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& [x, y, z] = places[i];
    layout_.middle[index(fabric_.ranks()[i])] = {margin + x * cell_x + z * step,
                                                 margin + y * cell_y + (last[2] - z) * step * 0.75};
  }
  layout_.size = {2 * margin + last[0] * cell_x + last[2] * step,
                  2 * margin + last[1] * cell_y + last[2] * step * 0.75};
  layout_.grid = std::move(places);  // without switches, ranks are all nodes
  return true;
}

Extent LayoutMaker::place_on_circle(const std::vector<NodeId>& nodes, Point corner, const std::vector<NodeId>& inside) {
  const double count = static_cast<double>(nodes.size());
  const double around = count * spacing(nodes) / (2 * std::numbers::pi);
  const double radius = std::max({around * (layout_.labelled ? 1.15 : 1.0), layout_.labelled ? 92.0 : 26.0,
                                  inside.empty() ? 0.0 : row_extent(inside).width / 2 + 50});
  const double half_width = layout_.extent[index(nodes.front())].width / 2 + 4;
  const Point middle{corner.x + radius + half_width, corner.y + radius + 16};
  // Level on top; but where cables come down from a switch above, no two nodes may stand at the same x.
  const double turn =
      boxes_.count() > 1 ? (nodes.size() % 2 == 0 ? -0.25 : -0.5) : (nodes.size() % 2 == 0 ? -0.5 : 0.0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(i) + turn) / count - std::numbers::pi / 2;
    layout_.middle[index(nodes[i])] = {middle.x + radius * std::cos(angle), middle.y + radius * std::sin(angle)};
  }
  if (!inside.empty()) {
    const Extent row = row_extent(inside);
    place_row(inside, {middle.x - row.width / 2, middle.y - row.height / 2}, row.width);
    layout_.is_bar[index(inside.front())] = false;
  }
  return {2 * (radius + half_width), 2 * (radius + 16)};
}

Extent LayoutMaker::row_extent(const std::vector<NodeId>& nodes) const {
  if (nodes.empty()) return {};
  double height = 0;
  for (const NodeId node : nodes) height = std::max(height, layout_.extent[index(node)].height);
  return {spacing(nodes) * static_cast<double>(nodes.size()), height};
}

// Evenly over the width; a single switch becomes a bar as wide as what it joins.
Extent LayoutMaker::place_row(const std::vector<NodeId>& nodes, Point corner, double width) {
  const Extent row = row_extent(nodes);
  const double step = width / static_cast<double>(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    layout_.middle[index(nodes[i])] = {corner.x + (static_cast<double>(i) + 0.5) * step, corner.y + row.height / 2};
  }
  if (nodes.size() == 1 && !fabric_.is_rank(nodes.front())) {
    Extent& bar = layout_.extent[index(nodes.front())];
    bar.width = std::max(bar.width, std::min(width - 2, kWidestBar));
    layout_.is_bar[index(nodes.front())] = true;
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
    const Extent circle = place_on_circle(content.ranks, {corner.x, corner.y + (below ? 0 : room)}, {});
    const double switches_y = below ? corner.y + circle.height + 22 : corner.y;
    if (room > 0) place_row(content.switches, {corner.x, switches_y}, circle.width);
    return {circle.width, circle.height + room};
  }
  const double width = std::max({ranks.width, switches.width, row_width_});
  const double between = content.switches.empty() ? 0 : std::max(26.0, (layout_.labelled ? 0.1 : 0.06) * width + 18);
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
    if (boxes_.box_of[node] == Boxes::kNone) continue;
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
  for (auto& level : levels) std::sort(level.begin(), level.end());
  // A switch with no cable at all stands with the lowest.
  for (uint32_t node = 0; node < distance.size(); ++node) {
    if (distance[node] != UINT32_MAX) continue;
    levels.resize(std::max<size_t>(levels.size(), 1));
    levels.front().push_back(NodeId{node});
  }
  return levels;
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
  const double padding = boxes_.count() > 1 ? (layout_.labelled ? kPanelPadding : kPanelPadding / 2) : 0;
  const double gap = layout_.labelled ? kPanelGap : kPanelGap / 2;
  panel = {panel.width + 2 * padding, panel.height + 2 * padding};

  // One row below the switches, or as many rows above them as below, whatever comes nearest to a slide's shape.
  const double upper_height = static_cast<double>(levels.size()) * kLevelHeight;
  const auto columns_of = [&](size_t rows) { return (boxes_.count() + rows - 1) / rows; };
  const auto misfit = [&](size_t rows) {
    const double width = static_cast<double>(columns_of(rows)) * (panel.width + gap);
    const double height = static_cast<double>(rows) * (panel.height + gap) + upper_height;
    return std::abs(std::log(width / height / 2.4)) + (rows > 2 ? 0.4 : 0);  // bundles are hard to follow
  };
  size_t rows = 1;
  for (size_t more = 2; levels.size() <= 1 && more <= boxes_.count(); more += 2) {
    if (misfit(more) < misfit(rows)) rows = more;
  }
  const size_t columns = columns_of(rows), rows_above = rows / 2;
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
    if (boxes_.count() > 1) layout_.panels.push_back({.corner = corner, .size = panel});
    if (row + 1 == rows_above || row == rows_above) continue;
    const Point way{corner.x - gap / 2, above ? corner.y + panel.height + gap / 2 : corner.y - gap / 2};
    for (const NodeId rank : boxes_.ranks[box]) layout_.detour[index(rank)] = way;
  }
  // Between two rows of panels the levels stand in the middle, else at the top.
  const double base =
      rows_above > 0 ? static_cast<double>(rows_above) * (panel.height + gap) + (kLevelHeight - gap - 22) / 2 : 8;
  for (size_t level = 0; level < levels.size(); ++level) {
    place_row(levels[level], {0, base + static_cast<double>(levels.size() - 1 - level) * kLevelHeight}, width);
  }
  layout_.size = {width, static_cast<double>(rows) * (panel.height + gap) - gap + upper_height};
}

}  // namespace

Extent node_extent(std::string_view name, bool labelled) {
  if (!labelled) return {10, 10};
  return {std::max(28.0, text_width(shortened(name, kMaxNameShown), kLabelSize) + 12), 22};
}

Point Layout::fastening(NodeId node, NodeId other) const {
  const Point own = middle[index(node)], far = middle[index(other)];
  const double own_reach = extent[index(node)].width / 2 - 4, far_reach = extent[index(other)].width / 2 - 4;
  if (!is_bar[index(node)] || own_reach <= far_reach) return own;
  return {std::clamp(far.x, own.x - own_reach, own.x + own_reach), own.y};
}

Layout lay_out(const Fabric& fabric, const Wiring& wiring) { return LayoutMaker(fabric, wiring).make(); }

}  // namespace banyan::picture
