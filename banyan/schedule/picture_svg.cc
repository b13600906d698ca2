// A fabric as SVG: panels, then cables, then nodes on top of them, then the legend.
#include <algorithm>
#include <cmath>

#include "banyan/schedule/picture_canvas.h"
#include "banyan/schedule/picture_layout.h"
#include "banyan/schedule/picture_render.h"

namespace banyan::picture {
namespace {

constexpr double kMargin = 28;
constexpr double kTitleHeight = 40;
constexpr double kLeastWidth = 420;

class FabricPicture {
 public:
  explicit FabricPicture(const Fabric& fabric)
      : fabric_(fabric), wiring_(wire(fabric)), layout_(lay_out(fabric, wiring_)) {}

  std::string draw() && {
    const size_t switches = fabric_.nodes().size() - fabric_.ranks().size();
    std::string title = plural(fabric_.ranks().size(), "rank");
    if (switches > 0) title += ", " + plural(switches, "switch");
    title += ", " + plural(fabric_.links().size(), "link");
    canvas_.text({kMargin, kMargin}, title, {.size = 18, .anchor = "start", .bold = true});
    const double page_width = std::max({layout_.size.width, text_width(title, 18), kLeastWidth});
    const double left = kMargin + (page_width - layout_.size.width) / 2;
    canvas_.open("g", {{"transform", "translate(" + number(left) + " " + number(kMargin + kTitleHeight) + ")"}});
    for (const Panel& panel : layout_.panels) draw_panel(panel);
    for (const Cable& cable : wiring_.cables) draw_cable(cable);
    for (uint32_t node = 0; node < fabric_.nodes().size(); ++node) draw_node(NodeId{node});
    canvas_.close("g");
    const double legend_top = kMargin + kTitleHeight + layout_.size.height + 24;
    const Extent legend = draw_legend({kMargin, legend_top}, page_width);
    const double width = std::max(page_width, legend.width) + 2 * kMargin;
    return canvas_.finish(width, legend_top + legend.height + kMargin / 2, title);
  }

 private:
  void draw_panel(const Panel& panel);
  void draw_cable(const Cable& cable);
  void draw_line(const Cable& cable, bool forth, double bulge);
  double bulge_of(const Cable& cable) const;
  bool goes_up(NodeId upper, NodeId rank) const;
  std::string roundabout_path(NodeId rank, NodeId upper, bool from_rank) const;
  void draw_node(NodeId node);
  Extent draw_legend(Point corner, double room);
  double width_of(const Cable& cable) const {
    const double thick = wiring_.shades.size() > 1 ? 5 : 3;
    return layout_.labelled ? wiring_.line_width(cable, 1.0, thick) : wiring_.line_width(cable, 0.4, 0.4 * thick);
  }

  const Fabric& fabric_;
  Wiring wiring_;
  Layout layout_;
  Canvas canvas_;
};

void FabricPicture::draw_panel(const Panel& panel) {
  canvas_.draw("rect", {{"class", "box"},
                        {"x", number(panel.corner.x)},
                        {"y", number(panel.corner.y)},
                        {"width", number(panel.size.width)},
                        {"height", number(panel.size.height)},
                        {"rx", "12"},
                        {"fill", "#EEF3F8"},
                        {"stroke", "#CBD5E0"}});
}

// A cable along a line of the grid to a node further than the next goes round those between.
double FabricPicture::bulge_of(const Cable& cable) const {
  if (layout_.grid.empty()) return 0;
  const auto &a = layout_.grid[index(cable.a)], &b = layout_.grid[index(cable.b)];
  uint32_t axes = 0, farthest = 0;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    const uint32_t distance = std::max(a[axis], b[axis]) - std::min(a[axis], b[axis]);
    axes += distance > 0 ? 1 : 0;
    farthest = std::max(farthest, distance);
  }
  if (axes != 1 || farthest < 2) return 0;
  const Point from = layout_.middle[index(cable.a)], to = layout_.middle[index(cable.b)];
  const bool left_is_outside = to.x >= from.x && to.y <= from.y;
  return (left_is_outside ? 1 : -1) * (layout_.labelled ? 26 : 8);
}

// Whether `rank` must go round other panels to reach the switch `upper`, which stands outside of its own.
bool FabricPicture::goes_up(NodeId upper, NodeId rank) const {
  return layout_.detour[index(rank)] && !fabric_.is_rank(upper) &&
         layout_.panel_of[index(upper)] != layout_.panel_of[index(rank)];
}

std::string FabricPicture::roundabout_path(NodeId rank, NodeId upper, bool from_rank) const {
  const Point start = layout_.middle[index(rank)], way = *layout_.detour[index(rank)];
  const double reach = layout_.extent[index(upper)].width / 2 - 2;
  const Point end{std::clamp(way.x, layout_.middle[index(upper)].x - reach, layout_.middle[index(upper)].x + reach),
                  layout_.middle[index(upper)].y};
  std::vector<Point> points{start, {start.x, way.y}, {way.x, way.y}, end};
  if (!from_rank) std::reverse(points.begin(), points.end());
  std::string path;
  for (const Point p : points) path += (path.empty() ? "M" : " L") + number(p.x) + " " + number(p.y);
  return path;
}

void FabricPicture::draw_cable(const Cable& cable) {
  const double bulge = bulge_of(cable);
  if (cable.is_even() || cable.back == 0) {
    draw_line(cable, true, bulge);
    return;
  }
  // Unequal directions are two lines, each with an arrow.
  draw_line(cable, true, bulge + 7);
  draw_line(cable, false, 7 - bulge);
}

void FabricPicture::draw_line(const Cable& cable, bool forth, double bulge) {
  const NodeId from = forth ? cable.a : cable.b, to = forth ? cable.b : cable.a;
  std::string path = bent_path(layout_.fastening(from, to), layout_.fastening(to, from), bulge);
  if (goes_up(from, to)) path = roundabout_path(to, from, false);
  if (goes_up(to, from)) path = roundabout_path(from, to, true);
  Cable alone = cable;
  if (!cable.is_even()) (forth ? alone.back : alone.forth) = 0;
  canvas_.draw("path",
               {{"class", "cable"},
                {"data-from", fabric_.name(from)},
                {"data-to", fabric_.name(to)},
                {"d", path},
                {"fill", "none"},
                {"stroke", wiring_.shades[cable.shade].colour},
                {"stroke-opacity", layout_.labelled ? "0.8" : "0.55"},
                {"stroke-width", number(width_of(alone))},
                {"marker-mid", cable.is_even() ? "none" : "url(#arrow)"}},
               describe(cable, fabric_));
}

void FabricPicture::draw_node(NodeId node) {
  const Point at = layout_.middle[index(node)];
  const Extent size = layout_.extent[index(node)];
  const bool is_rank = fabric_.is_rank(node);
  const bool labelled = layout_.labelled || !is_rank;
  canvas_.open("g", {{"class", is_rank ? "rank" : "switch"}, {"data-name", fabric_.name(node)}}, fabric_.name(node));
  canvas_.draw("rect", {{"x", number(at.x - size.width / 2)},
                        {"y", number(at.y - size.height / 2)},
                        {"width", number(size.width)},
                        {"height", number(size.height)},
                        {"rx", number(is_rank ? size.height / 2 : 4)},
                        {"fill", is_rank ? "#FFFFFF" : "#3B4656"},
                        {"stroke", is_rank ? "#2D3748" : "#1A202C"},
                        {"stroke-width", labelled ? "1.4" : "1"}});
  if (labelled) {
    canvas_.text(at, shortened(fabric_.name(node), kMaxNameShown),
                 {.size = kLabelSize, .colour = is_rank ? "#1A202C" : "#FFFFFF"});
  }
  canvas_.close("g");
}

Extent FabricPicture::draw_legend(Point corner, double room) {
  double x = corner.x, y = corner.y + 8, right = corner.x;
  const auto make_room = [&](double width) {
    if (x > corner.x && x + width > corner.x + room) {
      x = corner.x;
      y += 22;
    }
    right = std::max(right, x + width);
  };
  for (const Shade& shade : wiring_.shades) {
    const Cable sample{.forth = shade.most, .back = shade.most};
    const double text_room = text_width(shade.label(), 12);
    make_room(42 + text_room);
    canvas_.draw("line", {{"class", "legend"},
                          {"x1", number(x)},
                          {"y1", number(y)},
                          {"x2", number(x + 34)},
                          {"y2", number(y)},
                          {"stroke", shade.colour},
                          {"stroke-width", number(std::max(width_of(sample), 1.0))}});
    canvas_.text({x + 42, y}, shade.label(), {.anchor = "start"});
    x += 42 + text_room + 24;
  }
  const bool has_arrows =
      std::any_of(wiring_.cables.begin(), wiring_.cables.end(), [](const Cable& c) { return !c.is_even(); });
  const std::string note = has_arrows ? "each way; arrows: one way" : "each way";
  make_room(text_width(note, 12));
  canvas_.text({x, y}, note, {.colour = "#4A5568", .anchor = "start"});
  return {right - corner.x, y - corner.y + 12};
}

}  // namespace

std::string fabric_as_svg(const Fabric& fabric) { return FabricPicture(fabric).draw(); }

}  // namespace banyan::picture
