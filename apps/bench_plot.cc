#include "apps/bench_plot.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>

#include "apps/report.h"
#include "banyan/base/error.h"
#include "banyan/base/units.h"
#include "banyan/schedule/picture_canvas.h"

namespace banyan::app {
namespace {

using picture::Canvas;
using picture::number;

constexpr double kWidth = 900, kHeight = 520, kLeft = 80, kRight = 240, kTop = 50, kBottom = 60;
// Told apart by people who see no red and green, too.
constexpr std::array kColours{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933"};

// From logarithms of values to places on the page.
struct Scale {
  double least = 0, most = 1, from = 0, to = 1;
  double at(double value) const { return from + (std::log10(value) - least) / (most - least) * (to - from); }
};

Scale scale_of(const std::vector<double>& values, double from, double to) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  Scale scale{.least = std::floor(std::log10(*least)), .most = std::ceil(std::log10(*most)), .from = from, .to = to};
  if (scale.most == scale.least) scale.most += 1;
  return scale;
}

double height_of(const BenchCurve::Point& point, BenchAxis axis) {
  return axis == BenchAxis::busbw ? point.busbw : point.microseconds;
}

std::string plain(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace

std::string draw_bench(const std::vector<BenchCurve>& curves, BenchAxis axis, const std::string& title) {
  std::vector<double> sizes, heights;
  for (const BenchCurve& curve : curves) {
    for (const BenchCurve::Point& point : curve.points) {
      if (point.bytes <= 0 || height_of(point, axis) <= 0) continue;
      sizes.push_back(point.bytes);
      heights.push_back(height_of(point, axis));
    }
  }
  if (sizes.empty()) throw Error(ErrorCode::invalid_input, "there is nothing to draw: no size above zero was measured");
  const Scale across = scale_of(sizes, kLeft, kWidth - kRight), up = scale_of(heights, kHeight - kBottom, kTop);
  Canvas canvas;
  canvas.draw("rect", {{"width", number(kWidth)}, {"height", number(kHeight)}, {"fill", "#FFFFFF"}});
  canvas.text({(kLeft + kWidth - kRight) / 2, kTop / 2}, title, {.size = 16, .bold = true});
  const auto line = [&](double x1, double y1, double x2, double y2) {
    canvas.draw(
        "line",
        {{"x1", number(x1)}, {"y1", number(y1)}, {"x2", number(x2)}, {"y2", number(y2)}, {"stroke", "#D5DBE3"}});
  };
  for (double power = across.least; power <= across.most; ++power) {
    const double x = across.at(std::pow(10, power));
    line(x, kTop, x, kHeight - kBottom);
    canvas.text({x, kHeight - kBottom + 16},
                Bytes(static_cast<uint64_t>(std::llround(std::pow(10, power)))).to_string(), {});
  }
  for (double power = up.least; power <= up.most; ++power) {
    const double y = up.at(std::pow(10, power));
    line(kLeft, y, kWidth - kRight, y);
    canvas.text({kLeft - 8, y}, plain(std::pow(10, power)), {.anchor = "end"});
  }
  canvas.text({(kLeft + kWidth - kRight) / 2, kHeight - 18}, "size", {.size = 13});
  canvas.text({22, (kTop + kHeight - kBottom) / 2}, axis == BenchAxis::busbw ? "bus bandwidth (GB/s)" : "time (us)",
              {.size = 13, .upright = true});
  size_t drawn = 0;
  for (const BenchCurve& curve : curves) {
    const char* const colour = kColours[drawn % kColours.size()];
    const std::string dash = drawn >= kColours.size() ? "6 3" : "none";
    std::string path;
    for (const BenchCurve::Point& point : curve.points) {
      if (point.bytes <= 0 || height_of(point, axis) <= 0) continue;
      const double x = across.at(point.bytes), y = up.at(height_of(point, axis));
      path += (path.empty() ? "" : " ") + number(x) + "," + number(y);
      canvas.draw("circle", {{"cx", number(x)}, {"cy", number(y)}, {"r", "3"}, {"fill", colour}},
                  curve.label + ": " + Bytes(static_cast<uint64_t>(point.bytes)).to_string() + ", " +
                      plain(point.microseconds) + " us, " + plain(point.busbw) + " GB/s");
    }
    canvas.draw(
        "polyline",
        {{"points", path}, {"fill", "none"}, {"stroke", colour}, {"stroke-width", "2"}, {"stroke-dasharray", dash}});
    const double y = kTop + 12 + 20 * static_cast<double>(drawn);
    canvas.draw("rect", {{"x", number(kWidth - kRight + 16)},
                         {"y", number(y - 5)},
                         {"width", "14"},
                         {"height", "10"},
                         {"fill", colour}});
    canvas.text({kWidth - kRight + 36, y}, picture::shortened(curve.label, 28), {.anchor = "start"});
    ++drawn;
  }
  return canvas.finish(kWidth, kHeight, title);
}

std::vector<BenchCurve> curves_of(const std::vector<BenchRow>& rows, const std::string& prefix) {
  std::vector<BenchCurve> curves;
  const auto add = [&](const BenchRow& row, const std::optional<BenchCell>& cell, const char* suffix) {
    if (!cell) return;
    const std::string label = prefix + std::string(to_string(row.what.kind)) + suffix;
    auto found =
        std::find_if(curves.begin(), curves.end(), [&](const BenchCurve& each) { return each.label == label; });
    if (found == curves.end()) found = curves.insert(curves.end(), BenchCurve{.label = label, .points = {}});
    found->points.push_back(
        {.bytes = static_cast<double>(row.bytes), .microseconds = cell->microseconds, .busbw = cell->busbw});
  };
  for (const BenchRow& row : rows) {
    add(row, row.out_of_place, "");
    add(row, row.in_place, ", in place");
  }
  return curves;
}

std::vector<BenchCurve> read_bench_csv(std::string_view text, const std::string& name) {
  std::vector<BenchCurve> curves;
  std::map<std::string, size_t> columns;
  size_t number_of_line = 0;
  const auto fields_of = [](std::string_view line) {
    std::vector<std::string> fields;
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(',', begin), line.size());
      fields.emplace_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    return fields;
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number_of_line;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string> fields = fields_of(line);
    if (columns.empty()) {
      for (size_t i = 0; i < fields.size(); ++i) columns.emplace(fields[i], i);
      for (const char* needed : {"collective", "bytes", "ranks"}) {
        if (columns.contains(needed)) continue;
        throw Error(ErrorCode::invalid_input,
                    std::string("has no column '") + needed + "' in its first line; give a CSV of 'banyan bench'",
                    name);
      }
      continue;
    }
    const auto field = [&](const char* column) -> std::string {
      const auto found = columns.find(column);
      return found == columns.end() || found->second >= fields.size() ? "" : fields[found->second];
    };
    const auto value = [&](const char* column) {
      const std::string word = field(column);
      double result = 0;
      const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), result);
      if (error != std::errc() || rest != word.data() + word.size() || !std::isfinite(result)) {
        throw Error(ErrorCode::invalid_input, "'" + word.substr(0, 40) + "' is no number for " + column,
                    name + " line " + std::to_string(number_of_line));
      }
      return result;
    };
    // The comparison with other libraries (bench/) writes medians of each of its series.
    const bool is_compared = columns.contains("series");
    const std::string label = is_compared
                                  ? field("series") + " " + field("collective")
                                  : name + " " + field("collective") + (field("in_place") == "1" ? ", in place" : "");
    auto found =
        std::find_if(curves.begin(), curves.end(), [&](const BenchCurve& each) { return each.label == label; });
    if (found == curves.end()) found = curves.insert(curves.end(), BenchCurve{.label = label, .points = {}});
    const double bytes = value("bytes"), time = value(is_compared ? "median_us" : "time_us");
    const double factor = busbw_factor(parse_bench_kind(field("collective")), static_cast<uint32_t>(value("ranks")));
    found->points.push_back({.bytes = bytes, .microseconds = time, .busbw = bytes / time * 1e-3 * factor});
  }
  return curves;
}

}  // namespace banyan::app
