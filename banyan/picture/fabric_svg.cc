// A fabric as SVG: panels, then cables, then units on top of them, then the legend.
#include <algorithm>
#include <cmath>

#include "banyan/base/text.h"
#include "banyan/picture/drawing.h"
#include "banyan/picture/shades.h"
#include "banyan/picture/trees.h"

namespace banyan::picture {
namespace {

constexpr double kMargin = 28;
constexpr double kTitleHeight = 58;
constexpr double kLeastWidth = 420;
constexpr size_t kMeshFrom = 13;  // ranks of a full mesh of which only one's cables are drawn in full strength

class FabricPicture {
 public:
  FabricPicture(const Fabric& fabric, const std::string& name)
      : fabric_(fabric), name_(name), drawing_(picture::draw(fabric)), shades_(drawing_.cables) {
    const size_t ranks = fabric.ranks().size();
    labelled_ = ranks <= Drawing::kMaxDetailed;
    const bool all_alike = std::all_of(drawing_.cables.begin(), drawing_.cables.end(), [&](const Cable& cable) {
      return cable.is_even() && cable.widest() == drawing_.cables.front().widest();
    });
    scale_ = title_scale(drawing_.size);
    is_mesh_ = all_alike && ranks >= kMeshFrom && drawing_.units.size() == ranks &&
               drawing_.cables.size() == ranks * (ranks - 1) / 2;
  }

  std::string draw() && {
    const size_t switches = fabric_.nodes().size() - fabric_.ranks().size();
    std::string counts = plural(fabric_.ranks().size(), "rank");
    if (switches > 0) counts += ", " + plural(switches, "switch");
    counts += ", " + plural(fabric_.links().size(), "link");
    const std::string title = name_.empty() ? counts : name_;
    canvas_.text({kMargin, kMargin * scale_}, title, {.size = 18 * scale_, .anchor = "start", .bold = true});
    if (!name_.empty()) {
      canvas_.text({kMargin, (kMargin + 22) * scale_}, counts,
                   {.size = 13 * scale_, .colour = "#4A5568", .anchor = "start"});
    }
    const double page_width = std::max({drawing_.size.width, text_width(title, 18 * scale_), kLeastWidth});
    const double left = kMargin + (page_width - drawing_.size.width) / 2;
    const double top = (kMargin + kTitleHeight) * scale_;
    canvas_.open("g", {{"transform", "translate(" + number(left) + " " + number(top) + ")"}});
    for (const Panel& panel : drawing_.panels) draw_panel(panel);
    // The cables that stand for all of a full mesh lie on top of the others.
    for (const bool strong : {false, true}) {
      for (const Cable& cable : drawing_.cables) {
        if (cable.a != cable.b && is_strong(cable) == strong) draw_cable(cable);
      }
    }
    for (const Unit& unit : drawing_.units) draw_unit(unit);
    canvas_.close("g");
    const double legend_top = top + drawing_.size.height + 24 * scale_;
    const Extent legend = draw_legend({kMargin, legend_top}, page_width);
    const double width = std::max(page_width, legend.width) + 2 * kMargin;
    return canvas_.finish(width, legend_top + legend.height + kMargin / 2,
                          name_.empty() ? counts : name_ + ": " + counts);
  }

 private:
  void draw_panel(const Panel& panel);
  void draw_cable(const Cable& cable);
  void draw_line(const Cable& cable, bool forth, double offset);
  void draw_arrow(const Cable& cable, bool forth, double offset);
  void draw_unit(const Unit& unit);
  void draw_cells(const Unit& tile);
  Extent draw_legend(Point corner, double room);
  std::string legend_note() const;
  bool is_strong(const Cable& cable) const { return !is_mesh_ || cable.a == 0 || cable.b == 0; }
  double width_of(uint64_t bandwidth) const {
    const double thick = is_mesh_ ? 1.2 : shades_.all().size() > 1 ? 5 : 3;
    return labelled_ ? shades_.line_width(bandwidth, 1.0, thick) : shades_.line_width(bandwidth, 0.6, 0.6 * thick);
  }

  const Fabric& fabric_;
  const std::string& name_;
  Drawing drawing_;
  Shades shades_;
  bool labelled_ = true, is_mesh_ = false;
  double scale_ = 1;  // of title and legend
  Canvas canvas_;
};

// The path in the direction of a line, and moved to its right.
std::vector<Point> points_of(const Cable& cable, bool forth, double offset) {
  std::vector<Point> points = cable.path;
  if (!forth) std::reverse(points.begin(), points.end());
  const double x = points.back().x - points.front().x, y = points.back().y - points.front().y;
  const double length = std::max(1e-9, std::hypot(x, y));
  for (Point& point : points) point = {point.x - y / length * offset, point.y + x / length * offset};
  return points;
}

void FabricPicture::draw_panel(const Panel& panel) {
  canvas_.draw("rect", {{"class", panel.inner ? "package" : "box"},
                        {"x", number(panel.corner.x)},
                        {"y", number(panel.corner.y)},
                        {"width", number(panel.size.width)},
                        {"height", number(panel.size.height)},
                        {"rx", "12"},
                        {"fill", panel.inner ? "#DCE6F0" : "#EEF3F8"},
                        {"stroke", "#CBD5E0"}});
}

void FabricPicture::draw_cable(const Cable& cable) {
  if (cable.is_even() || cable.is_one_way()) {
    draw_line(cable, true, 0);
    return;
  }
  // Unequal directions are two lines side by side, each with an arrow.
  draw_line(cable, true, 4);
  draw_line(cable, false, 4);
}

void FabricPicture::draw_line(const Cable& cable, bool forth, double offset) {
  const std::vector<Point> points = points_of(cable, forth, offset);
  std::string path;
  for (size_t i = 0; i < points.size(); ++i) {
    path += i == 0 ? "M" : cable.curved ? (i == 1 ? " Q" : " ") : " L";
    path += number(points[i].x) + " " + number(points[i].y);
  }
  const std::string &a = drawing_.units[cable.a].name, &b = drawing_.units[cable.b].name;
  const uint64_t bandwidth = cable.is_even() ? cable.widest() : forth ? cable.forth_bandwidth : cable.back_bandwidth;
  canvas_.draw("path",
               {{"class", "cable"},
                {"data-from", forth ? a : b},
                {"data-to", forth ? b : a},
                {"d", path},
                {"fill", "none"},
                {"stroke", shades_.of(cable).colour},
                {"stroke-opacity", !is_strong(cable) ? "0.07"
                                   : labelled_       ? "0.8"
                                                     : "0.55"},
                {"stroke-dasharray", cable.assumed ? "6 3" : ""},
                {"stroke-width", number(is_strong(cable) ? width_of(bandwidth) : 0.3)}},
               describe(cable, a, b));
  if (!cable.is_even()) draw_arrow(cable, forth, offset);
}

// In the middle of what the units at both ends leave visible of the line.
void FabricPicture::draw_arrow(const Cable& cable, bool forth, double offset) {
  const std::vector<Point> points = points_of(cable, forth, offset);
  const size_t piece = (points.size() - 1) / 2;
  Point from = points[piece], to = points[piece + 1];
  Point middle{(from.x + to.x) / 2, (from.y + to.y) / 2};
  if (cable.curved) {
    from = points[0], to = points[2];
    middle = {(from.x + 2 * points[1].x + to.x) / 4, (from.y + 2 * points[1].y + to.y) / 4};
  } else if (points.size() == 2) {
    // How much of the way an end's unit hides.
    const auto hidden = [&](const Unit& unit) {
      const double across = std::abs(to.x - from.x), up = std::abs(to.y - from.y);
      return std::min({across > 0 ? unit.size.width / 2 / across : 1, up > 0 ? unit.size.height / 2 / up : 1, 0.5});
    };
    const Unit &first = drawing_.units[forth ? cable.a : cable.b], &last = drawing_.units[forth ? cable.b : cable.a];
    const double part = (hidden(first) + 1 - hidden(last)) / 2;
    middle = {from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part};
  }
  const double turn = std::atan2(to.y - from.y, to.x - from.x) * 180 / std::acos(-1.0);
  canvas_.draw("path", {{"class", "arrow"},
                        {"d", "M-5 -4.2 L5.5 0 L-5 4.2 z"},
                        {"transform",
                         "translate(" + number(middle.x) + " " + number(middle.y) + ") rotate(" + number(turn) + ")"},
                        {"fill", "#1A202C"}});
}

void FabricPicture::draw_unit(const Unit& unit) {
  const bool is_rank = unit.kind == Unit::Kind::rank, is_switch = unit.kind == Unit::Kind::switch_;
  std::string tip = unit.name;
  if (unit.kind == Unit::Kind::tile) tip += ": " + plural(unit.ranks.size(), "rank");
  if (!is_rank && unit.ranks.size() + unit.switches > 1 && unit.switches > 0)
    tip += ", " + plural(unit.switches, "switch");
  canvas_.open("g", {{"class", is_rank ? "rank" : is_switch ? "switch" : "tile"}, {"data-name", unit.name}}, tip);
  canvas_.draw("rect", {{"x", number(unit.corner().x)},
                        {"y", number(unit.corner().y)},
                        {"width", number(unit.size.width)},
                        {"height", number(unit.size.height)},
                        {"rx", number(is_rank ? unit.size.height / 2 : 4)},
                        {"fill", is_switch ? "#3B4656" : "#FFFFFF"},
                        {"stroke", is_switch ? "#1A202C" : "#2D3748"},
                        {"stroke-width", unit.labelled ? "1.4" : "1"}});
  if (unit.kind == Unit::Kind::tile) {
    draw_cells(unit);
  } else if (unit.labelled) {
    const std::string label = unit.switches > 1 ? plural(unit.switches, "switch") : shown_name(unit.name);
    canvas_.text(unit.middle, label, {.size = kLabelSize, .colour = is_rank ? "#1A202C" : "#FFFFFF"});
  }
  canvas_.close("g");
}

void FabricPicture::draw_cells(const Unit& tile) {
  const double top = tile.corner().y;
  const auto room = static_cast<size_t>((tile.size.width - 4) / 4.6);
  canvas_.text({tile.middle.x, top + 10}, shortened(tile.name, room), {.size = 8});
  if (!drawing_.has_cells(tile)) {
    canvas_.text({tile.middle.x, tile.middle.y + 6}, std::to_string(tile.ranks.size()), {});
    return;
  }
  for (size_t i = 0; i < tile.ranks.size(); ++i) {
    const Point corner = drawing_.cell_corner(tile, i);
    const std::string& name = fabric_.name(tile.ranks[i]);
    canvas_.draw("rect",
                 {{"class", "cell"},
                  {"data-name", name},
                  {"x", number(corner.x)},
                  {"y", number(corner.y)},
                  {"width", "10"},
                  {"height", "10"},
                  {"rx", "2"},
                  {"fill", "#B9C6D6"}},
                 name);
  }
}

std::string FabricPicture::legend_note() const {
  bool both_ways = false, arrows = false, bundles = false, assumed = false;
  for (const Cable& cable : drawing_.cables) {
    if (cable.a == cable.b) continue;
    (cable.is_even() ? both_ways : arrows) = true;
    bundles |= cable.forth.size() > 1;
    assumed |= cable.assumed;
  }
  std::string note = !arrows     ? "each way"
                     : both_ways ? "each way; with an arrow: that way only"
                                 : "arrows: that way only";
  if (bundles) note += "; a line may stand for several links, summed";
  if (assumed) note += "; dashed: the bandwidth is assumed";
  if (is_mesh_) {
    note += "; every rank is joined to every other, the cables of " + fabric_.name(fabric_.ranks()[0]) +
            " are drawn in full strength";
  }
  return note;
}

Extent FabricPicture::draw_legend(Point corner, double room) {
  const double size = 12 * scale_, sample = 34 * scale_, gap = 8 * scale_;
  double x = corner.x, y = corner.y + gap, right = corner.x;
  const auto make_room = [&](double width) {
    if (x > corner.x && x + width > corner.x + room) {
      x = corner.x;
      y += 22 * scale_;
    }
    right = std::max(right, x + width);
  };
  for (const Shade& shade : shades_.all()) {
    const double text_room = sample + gap + text_width(shade.label(), size);
    make_room(text_room);
    canvas_.draw("line", {{"class", "legend"},
                          {"x1", number(x)},
                          {"y1", number(y)},
                          {"x2", number(x + sample)},
                          {"y2", number(y)},
                          {"stroke", shade.colour},
                          {"stroke-width", number(std::max(width_of(shade.most), 1.0))}});
    canvas_.text({x + sample + gap, y}, shade.label(), {.size = size, .anchor = "start"});
    x += text_room + 3 * gap;
  }
  const std::string note = legend_note();
  make_room(text_width(note, size));
  canvas_.text({x, y}, note, {.size = size, .colour = "#4A5568", .anchor = "start"});
  return {right - corner.x, y - corner.y + size};
}

}  // namespace

std::string fabric_as_svg(const Fabric& fabric, const std::string& name) { return FabricPicture(fabric, name).draw(); }

}  // namespace banyan::picture
