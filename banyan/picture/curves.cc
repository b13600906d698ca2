#include "banyan/picture/curves.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "banyan/base/error.h"
#include "banyan/base/units.h"
#include "banyan/picture/canvas.h"
#include "banyan/picture/log_axis.h"

namespace banyan::picture {
namespace {

constexpr double kWidth = 900, kHeight = 540, kLeft = 80, kTop = 76, kBottom = 60;
// Told apart by people who see no red and green, too.
constexpr std::array kColours{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933"};

class PlotPicture {
 public:
  explicit PlotPicture(const CurvePlot& plot) : plot_(plot) {
    double least_size = HUGE_VAL, most_size = 0, least = HUGE_VAL, most = 0, label = 0;
    for (const Curve& curve : plot.curves) {
      label = std::max(label, text_width(curve.label, 12));
      for (const Curve::Point& point : curve.points) {
        if (!is_shown(point)) continue;
        least_size = std::min(least_size, point.bytes);
        most_size = std::max(most_size, point.bytes);
        least = std::min(least, point.value);
        most = std::max(most, point.value);
      }
    }
    if (most == 0) throw invalid("there is nothing to draw: no size above zero was measured");
    right_ = kWidth - std::min(label + 60, kWidth / 3);
    sizes_ = size_axis(least_size, most_size, kLeft, right_);
    values_ = value_axis(least, most, kHeight - kBottom, kTop);
  }

  std::string draw() && {
    canvas_.text({kLeft, 26}, plot_.title, {.size = 17, .anchor = "start", .bold = true});
    canvas_.text({kLeft, 50}, plot_.subtitle, {.size = 12, .colour = "#4A5568", .anchor = "start"});
    draw_axes();
    for (size_t i = 0; i < plot_.curves.size(); ++i) draw_curve(plot_.curves[i], i);
    return canvas_.finish(kWidth, std::max(kHeight, kTop + 24 + 20 * static_cast<double>(plot_.curves.size())),
                          plot_.title);
  }

 private:
  static bool is_shown(const Curve::Point& point) { return point.bytes > 0 && point.value > 0; }
  Point place_of(const Curve::Point& point) const { return {sizes_.at(point.bytes), values_.at(point.value)}; }

  void draw_axes() {
    const auto line = [&](Point a, Point b) {
      canvas_.draw(
          "line",
          {{"x1", number(a.x)}, {"y1", number(a.y)}, {"x2", number(b.x)}, {"y2", number(b.y)}, {"stroke", "#D5DBE3"}});
    };
    for (const double size : sizes_.ticks) {
      const double x = sizes_.at(size);
      line({x, kTop}, {x, kHeight - kBottom});
      canvas_.text({x, kHeight - kBottom + 16}, Bytes(static_cast<uint64_t>(size)).to_string(), {});
    }
    for (const double value : values_.ticks) {
      const double y = values_.at(value);
      line({kLeft, y}, {right_, y});
      canvas_.text({kLeft - 8, y}, tick_text(value), {.anchor = "end"});
    }
    canvas_.text({(kLeft + right_) / 2, kHeight - 18}, "size", {.size = 13});
    canvas_.text({22, (kTop + kHeight - kBottom) / 2}, plot_.value, {.size = 13, .upright = true});
  }

  void draw_curve(const Curve& curve, size_t place) {
    const char* const colour = kColours[place % kColours.size()];
    std::string path;
    for (const Curve::Point& point : curve.points) {
      if (!is_shown(point)) continue;
      const Point at = place_of(point);
      path += (path.empty() ? "" : " ") + number(at.x) + "," + number(at.y);
      canvas_.draw("circle", {{"cx", number(at.x)}, {"cy", number(at.y)}, {"r", "3"}, {"fill", colour}},
                   curve.label + ": " + point.note);
    }
    canvas_.draw("polyline", {{"points", path},
                              {"fill", "none"},
                              {"stroke", colour},
                              {"stroke-width", "2"},
                              {"stroke-dasharray", place >= kColours.size() ? "6 3" : "none"}});
    const double y = kTop + 12 + 20 * static_cast<double>(place);
    canvas_.draw(
        "rect",
        {{"x", number(right_ + 16)}, {"y", number(y - 5)}, {"width", "14"}, {"height", "10"}, {"fill", colour}});
    canvas_.text({right_ + 36, y}, shortened(curve.label, 40), {.anchor = "start"});
  }

  const CurvePlot& plot_;
  double right_ = 0;
  LogAxis sizes_, values_;
  Canvas canvas_;
};

}  // namespace

std::string draw_curves(const CurvePlot& plot) { return PlotPicture(plot).draw(); }

}  // namespace banyan::picture
