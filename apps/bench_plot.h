// The curves of `banyan bench`, as a picture: size against bus bandwidth or time, both logarithmic.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/bench_measure.h"

namespace banyan::app {

struct BenchCurve {
  std::string label;
  struct Point {
    double bytes = 0, microseconds = 0, busbw = 0;
  };
  std::vector<Point> points;
};

enum class BenchAxis : uint8_t { busbw, time };

// A self-contained SVG. Points that a logarithm has no place for are left out. Throws Error{invalid_input} when no
// curve has a point.
std::string draw_bench(const std::vector<BenchCurve>& curves, BenchAxis axis, const std::string& title);

// One curve for each collective, out of place and in place.
std::vector<BenchCurve> curves_of(const std::vector<BenchRow>& rows, const std::string& prefix);

// Those in a CSV of an earlier run (bench_table.h), their labels after `name`. Throws Error{invalid_input} naming the
// line.
std::vector<BenchCurve> read_bench_csv(std::string_view text, const std::string& name);

}  // namespace banyan::app
