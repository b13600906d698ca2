// StepMeter: medians of training steps that are measured as they go on, for measured_step.h.
//
// A step begins with its first bucket. Times are seconds of any clock that only goes forward.
//
// Pure. One thread at a time. O(buckets) memory a step.
#pragma once

#include <cstddef>
#include <vector>

#include "banyan/predict/codes/measured_step.h"

namespace banyan::predict {

class StepMeter {
 public:
  // Ends the step before, and counts it.
  void begin_step(double now);
  // Begins the next bucket of the step that has begun. Returns its number in the step.
  size_t begin_bucket(double bytes, double now);
  // Ends a bucket of the step that has begun.
  void end_bucket(size_t bucket, double now);
  void clear();

  // The number of steps that have begun and ended.
  size_t steps() const { return periods_.size(); }
  // The medians of these steps, at least one; latency 0. Steps whose buckets differ from those of the last one count
  // for the period only.
  MeasuredStep medians() const;

 private:
  using Buckets = std::vector<MeasuredStep::Bucket>;

  bool has_begun_ = false;
  double begin_ = 0, last_end_ = 0;  // of the step; of its buckets
  Buckets current_;
  std::vector<Buckets> before_;
  std::vector<double> periods_;
};

}  // namespace banyan::predict
