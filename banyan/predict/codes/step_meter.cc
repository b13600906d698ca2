#include "banyan/predict/codes/step_meter.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

void StepMeter::begin_step(double now) {
  if (has_begun_) {
    periods_.push_back(now - begin_);
    before_.push_back(std::exchange(current_, {}));
  }
  has_begun_ = true;
  begin_ = last_end_ = now;
}

size_t StepMeter::begin_bucket(double bytes, double now) {
  CHECK(has_begun_);
  current_.push_back({.bytes = bytes, .begin = now - begin_});
  return current_.size() - 1;
}

void StepMeter::end_bucket(size_t bucket, double now) {
  CHECK(bucket < current_.size());
  MeasuredStep::Bucket& ended = current_[bucket];
  ended.seconds = std::max(0.0, now - std::max(last_end_, begin_ + ended.begin));
  last_end_ = std::max(last_end_, now);
}

void StepMeter::clear() { *this = {}; }

MeasuredStep StepMeter::medians() const {
  CHECK(!before_.empty());
  MeasuredStep found{.buckets = before_.back(), .period = median(periods_)};
  const auto is_alike = [&](const Buckets& step) {
    return std::equal(step.begin(), step.end(), found.buckets.begin(), found.buckets.end(),
                      [](const auto& a, const auto& b) { return a.bytes == b.bytes; });
  };
  for (size_t i = 0; i < found.buckets.size(); ++i) {
    std::vector<double> begins, seconds;
    for (const Buckets& step : before_) {
      if (!is_alike(step)) continue;
      begins.push_back(step[i].begin);
      seconds.push_back(step[i].seconds);
    }
    found.buckets[i].begin = median(begins);
    found.buckets[i].seconds = median(seconds);
  }
  return found;
}

}  // namespace banyan::predict
