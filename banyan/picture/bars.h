// Bars as SVG: things of a kind below each other, and in panels side by side, each on a logarithmic axis of its own,
// figures of each.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace banyan::picture {

// A figure of every row. Bars begin at the left end of the axis, which means nothing: compare where they end.
struct BarSeries {
  std::string label;
  std::vector<double> values = {};      // of each row; at most 0 or not finite: a text without a bar
  std::vector<std::string> texts = {};  // behind each bar
};

struct BarPanel {
  std::string title;                             // "bytes"
  std::vector<BarSeries> series;                 // one at least; several are told apart by colour
  std::function<std::string(double)> tick = {};  // of values at the axis; else as plain numbers
};

struct BarChart {
  std::string title, subtitle;
  std::vector<std::string> rows = {};
  std::vector<BarPanel> panels = {};
};

// Each series has a value and a text for each row. Throws Error{invalid_input} when no row and no panel is given.
std::string draw_bars(const BarChart& chart);

}  // namespace banyan::picture
