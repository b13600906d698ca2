// Deadline: a moment, and how long it was from the beginning, which is what a person wants to read when it has passed.
//
// By the time in which this process ran (AwakeTime): who waits for it looks again every AwakeTime::kLongestSleep.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "banyan/base/words.h"
#include "banyan/run/system/awake_time.h"

namespace banyan::run {

class Deadline {
 public:
  using Clock = AwakeClock;

  static Deadline after(std::chrono::milliseconds whole) {
    // Such that no sum overflows.
    const std::chrono::milliseconds bounded =
        std::clamp<std::chrono::milliseconds>(whole, std::chrono::milliseconds(0), std::chrono::hours(24 * 365));
    return Deadline(Clock::now() + bounded, bounded);
  }

  Clock::time_point at() const { return at_; }
  bool has_passed() const { return Clock::now() >= at_; }
  // Rounded up, so that who waits so long has waited long enough. Never negative.
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()), std::chrono::milliseconds(0));
  }
  // For poll(2) and other sleeps, after which one looks again.
  std::chrono::milliseconds next_sleep() const { return run::next_sleep(at_); }
  // The same beginning, but `more` later.
  Deadline later(std::chrono::milliseconds more) const { return Deadline(at_ + more, whole_); }
  // "30 s", "1500 ms": the whole time.
  std::string text() const { return format_timeout(whole_); }

 private:
  Deadline(Clock::time_point at, std::chrono::milliseconds whole) : at_(at), whole_(whole) {}

  Clock::time_point at_;
  std::chrono::milliseconds whole_;
};

}  // namespace banyan::run
