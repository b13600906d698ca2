// Curves as SVG: something measured, by size, both logarithmic. Sizes stand at powers of two or four, as they are
// measured.
#pragma once

#include <string>
#include <vector>

namespace banyan::picture {

struct Curve {
  std::string label;
  struct Point {
    double bytes = 0, value = 0;
    std::string note = {};  // a tooltip, after the label
  };
  std::vector<Point> points;  // those that a logarithm has no place for are left out
};

struct CurvePlot {
  std::string title, subtitle;  // "allreduce, 8 ranks"; where, when and by whom it was measured
  std::string value;            // "bus bandwidth (GB/s)"
  std::vector<Curve> curves;
};

// Throws Error{invalid_input} when no curve has a point.
std::string draw_curves(const CurvePlot& plot);

}  // namespace banyan::picture
