#include "banyan/picture/bars.h"

#include <algorithm>
#include <cmath>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/picture/canvas.h"
#include "banyan/picture/log_axis.h"
#include "banyan/picture/shades.h"

namespace banyan::picture {
namespace {

constexpr double kBarsTop = 104, kBar = 12, kBetweenRows = 10, kPanelWidth = 340, kBetweenPanels = 40, kBarsLeft = 20;
constexpr double kKey = 17, kBetweenHeads = 18;

bool has_bar(double value) { return value > 0 && std::isfinite(value); }

class BarPicture {
 public:
  explicit BarPicture(const BarChart& chart) : chart_(chart) {
    if (chart.rows.empty() || chart.panels.empty()) throw invalid("there is nothing to draw: no rows or no panels");
    size_t series = 1;
    for (const BarPanel& panel : chart.panels) {
      series = std::max(series, panel.series.size());
      for (const BarSeries& each : panel.series) {
        CHECK(each.values.size() == chart.rows.size() && each.texts.size() == chart.rows.size()) << each.label;
      }
    }
    row_height_ = kBar * static_cast<double>(series) + kBetweenRows;
    bottom_ = kBarsTop + row_height_ * static_cast<double>(chart.rows.size());
    for (const std::string& row : chart.rows) left_ = std::max(left_, text_width(row, 12) + kBarsLeft + 10);
  }

  std::string draw() && {
    canvas_.text({kBarsLeft, 26}, chart_.title, {.size = 17, .anchor = "start", .bold = true});
    canvas_.text({kBarsLeft, 50}, chart_.subtitle, {.size = 12, .colour = "#4A5568", .anchor = "start"});
    for (size_t row = 0; row < chart_.rows.size(); ++row) {
      canvas_.text({left_ - 10, middle_of(row)}, chart_.rows[row], {.anchor = "end"});
    }
    double from = left_;
    for (const BarPanel& panel : chart_.panels) {
      draw_panel(panel, from);
      from += std::max(kPanelWidth, heads_width(panel)) + kBetweenPanels;
    }
    return canvas_.finish(from - kBetweenPanels + kBarsLeft, bottom_ + 40, chart_.title);
  }

 private:
  double middle_of(size_t row) const { return kBarsTop + row_height_ * (static_cast<double>(row) + 0.5); }

  void draw_panel(const BarPanel& panel, double from) {
    double text = 0, least = HUGE_VAL, most = 0;
    for (const BarSeries& series : panel.series) {
      for (size_t row = 0; row < chart_.rows.size(); ++row) {
        text = std::max(text, text_width(series.texts[row], 11));
        if (!has_bar(series.values[row])) continue;
        least = std::min(least, series.values[row]);
        most = std::max(most, series.values[row]);
      }
    }
    // Half the least one, so that its bar can be seen, too.
    const double to = from + kPanelWidth - text - 6;
    const LogAxis axis = most == 0 ? value_axis(1, 10, from, to) : value_axis(least / 2, most, from, to);
    draw_heads(panel, from);
    if (most > 0) draw_ticks(panel, axis);
    for (size_t place = 0; place < panel.series.size(); ++place) {
      for (size_t row = 0; row < chart_.rows.size(); ++row) draw_bar(panel, place, row, axis);
    }
  }

  static double heads_width(const BarPanel& panel) {
    double width = text_width(panel.title, 13);
    if (panel.series.size() < 2) return width;
    for (const BarSeries& series : panel.series) width += kKey + text_width(series.label, 12) + kBetweenHeads;
    return width;
  }

  // The title, and behind it the colours of several series.
  void draw_heads(const BarPanel& panel, double from) {
    canvas_.text({from, 76}, panel.title, {.size = 13, .anchor = "start", .bold = true});
    if (panel.series.size() < 2) return;
    double x = from + text_width(panel.title, 13) + kBetweenHeads;
    for (size_t place = 0; place < panel.series.size(); ++place) {
      canvas_.draw("rect",
                   {{"x", number(x)}, {"y", "71"}, {"width", "12"}, {"height", "10"}, {"fill", colour_of(place)}});
      canvas_.text({x + kKey, 76}, panel.series[place].label, {.anchor = "start"});
      x += kKey + text_width(panel.series[place].label, 12) + kBetweenHeads;
    }
  }

  // Texts that would run into the one before are left out.
  void draw_ticks(const BarPanel& panel, const LogAxis& axis) {
    double taken = -HUGE_VAL;
    for (const double value : axis.ticks) {
      const double x = axis.at(value);
      canvas_.draw("line", {{"x1", number(x)},
                            {"y1", number(kBarsTop)},
                            {"x2", number(x)},
                            {"y2", number(bottom_)},
                            {"stroke", "#D5DBE3"}});
      const std::string text = panel.tick ? panel.tick(value) : tick_text(value);
      const double width = text_width(text, 11);
      if (x - width / 2 < taken + 6) continue;
      canvas_.text({x, bottom_ + 14}, text, {.size = 11});
      taken = x + width / 2;
    }
  }

  void draw_bar(const BarPanel& panel, size_t place, size_t row, const LogAxis& axis) {
    const BarSeries& series = panel.series[place];
    const double all = kBar * static_cast<double>(panel.series.size());
    const double top = middle_of(row) - all / 2 + kBar * static_cast<double>(place);
    double end = axis.from;
    if (has_bar(series.values[row])) {
      end = axis.at(series.values[row]);
      canvas_.draw("rect",
                   {{"x", number(axis.from)},
                    {"y", number(top)},
                    {"width", number(end - axis.from)},
                    {"height", number(kBar - 1)},
                    {"fill", colour_of(place)}},
                   chart_.rows[row] + ", " + series.label + ": " + series.texts[row]);
    }
    canvas_.text({end + 5, top + kBar / 2}, series.texts[row], {.size = 11, .anchor = "start"});
  }

  static const char* colour_of(size_t place) { return kPalette[place % kPalette.size()]; }

  const BarChart& chart_;
  double row_height_ = 0, bottom_ = 0, left_ = 0;
  Canvas canvas_;
};

}  // namespace

std::string draw_bars(const BarChart& chart) { return BarPicture(chart).draw(); }

}  // namespace banyan::picture
