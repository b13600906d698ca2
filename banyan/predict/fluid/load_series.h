// LoadSeries: bytes on many links over time, in steps that grow with the time that is covered.
//
// The bytes of each transfer are recorded as spread evenly from its begin to its end: sums are exact, and within a
// transfer the shape is its mean.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "banyan/base/units.h"

namespace banyan::predict {

class LoadSeries {
 public:
  static constexpr size_t kSteps = 256;

  explicit LoadSeries(size_t links) : links_(links) {}

  void add(uint32_t link, double bytes, Picoseconds begin, Picoseconds end) {
    while (end.count() >= step_ * static_cast<int64_t>(kSteps)) coarsen();
    std::vector<float>& series = links_[link];
    if (series.empty()) series.resize(kSteps, 0);
    const double length = static_cast<double>(std::max<int64_t>(1, (end - begin).count()));
    for (int64_t step = begin.count() / step_; step <= end.count() / step_; ++step) {
      const int64_t from = std::max(begin.count(), step * step_), to = std::min(end.count(), (step + 1) * step_);
      const double part = begin == end ? 1 : static_cast<double>(to - from) / length;
      series[static_cast<size_t>(step)] += static_cast<float>(bytes * part);
    }
  }

  Picoseconds step() const { return Picoseconds(step_); }
  // Bytes by step; empty when nothing crossed the link.
  const std::vector<float>& bytes(uint32_t link) const { return links_[link]; }

 private:
  void coarsen() {
    step_ *= 2;
    for (std::vector<float>& series : links_) {
      if (series.empty()) continue;
      for (size_t i = 0; i < kSteps; ++i) {
        series[i] = 2 * i + 1 < kSteps ? series[2 * i] + series[2 * i + 1] : 0;
      }
    }
  }

  int64_t step_ = 1'000'000;  // 1 us
  std::vector<std::vector<float>> links_;
};

}  // namespace banyan::predict
