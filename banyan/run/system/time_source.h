// TimeSource: what time it is, from outside, so that a test can turn the hands.
#pragma once

#include <chrono>

namespace banyan::run {

class TimeSource {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  TimeSource() = default;
  TimeSource(const TimeSource&) = delete;
  TimeSource& operator=(const TimeSource&) = delete;
  virtual ~TimeSource() = default;
  virtual TimePoint now() const = 0;
};

// The time of this host. It has no state, so all may use one.
class SteadyTime final : public TimeSource {
 public:
  static const SteadyTime& instance() {
    static const SteadyTime time;
    return time;
  }
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace banyan::run
