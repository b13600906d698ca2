// Load over time, resampled to so many steps and written as one letter per step, which a page decodes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "banyan/predict/simulation/prediction.h"

namespace banyan::predict::report {

// Resamples the series of one prediction, all alike.
class PageSeries {
 public:
  // At most `most` steps.
  PageSeries(const Prediction& prediction, size_t most);

  bool empty() const { return steps_ == 0; }
  size_t steps() const { return steps_; }
  double step_ps() const { return step_ps_; }  // of a resampled one

  // The highest of these links' loads in each step, each link's being its mean over the step.
  std::string highest(std::span<const uint32_t> links) const;

  // One of 64 letters.
  static char letter(double load);

 private:
  const Prediction& prediction_;
  size_t recorded_ = 0, steps_ = 0;
  double step_ps_ = 0;
};

}  // namespace banyan::predict::report
