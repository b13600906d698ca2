// Deadline: a moment, and how long it was from the beginning, which is what a person wants to read when it has passed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "banyan/base/words.h"

namespace banyan::run {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

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
  // For poll(2).
  int left_for_poll() const { return static_cast<int>(std::min<int64_t>(left().count(), INT32_MAX)); }
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
