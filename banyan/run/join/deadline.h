// Deadline: a moment, and how long it was from the beginning, which is what a person wants to read when it has passed.
//
// It counts the time in which this process ran (AwakeTime): a thread that waits for it looks again every
// AwakeTime::kLongestSleep. Within that time it also notices a stop request (unless()): the deadline has passed then.
#pragma once

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <string>
#include <utility>

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
  bool has_passed() const { return is_stopped() || Clock::now() >= at_; }
  bool is_stopped() const { return stop_.stop_requested(); }
  // Rounded up, so that a wait of this length is long enough. Never negative.
  std::chrono::milliseconds left() const {
    if (is_stopped()) return {};
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()), std::chrono::milliseconds(0));
  }
  // For poll(2) and other sleeps, after which one looks again.
  std::chrono::milliseconds next_sleep() const { return is_stopped() ? left() : run::next_sleep(at_); }
  // The same beginning, but `more` later.
  Deadline later(std::chrono::milliseconds more) const { return Deadline(at_ + more, whole_, stop_); }
  // From now on, and no later than this one.
  Deadline within(std::chrono::milliseconds at_most) const { return after(std::min(left(), at_most)).unless(stop_); }
  // The same, but it passes when a stop is requested.
  Deadline unless(std::stop_token stop) const { return Deadline(at_, whole_, std::move(stop)); }
  // "30 s", "1500 ms": the whole time.
  std::string text() const { return format_timeout(whole_); }

 private:
  Deadline(Clock::time_point at, std::chrono::milliseconds whole, std::stop_token stop = {})
      : at_(at), whole_(whole), stop_(std::move(stop)) {}

  Clock::time_point at_;
  std::chrono::milliseconds whole_;
  std::stop_token stop_;
};

}  // namespace banyan::run
