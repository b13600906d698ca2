// Reminder: tells a person, now and then, whom a process still waits for while a job meets.
//
//   Reminder reminder(deadline);
//   while (...) {
//     if (reminder.is_due()) reminder.log("rank 0 at tcp://node0:29501");
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include "banyan/run/join/deadline.h"

namespace banyan::run {

// From its making on: after 10 s, and then after twice the time again and again.
class Reminder {
 public:
  explicit Reminder(const Deadline& deadline) : deadline_(deadline) {}

  bool is_due() const { return Deadline::Clock::now() >= next(); }
  // Not beyond the deadline.
  Deadline until_next() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next() - Deadline::Clock::now());
    return deadline_.within(std::max(left, std::chrono::milliseconds(0)));
  }
  // A warning in the log: "still waiting for rank 0 at tcp://node0:29501, 10 s of 300 s".
  void log(const std::string& whom);
  // Somebody else tells.
  void skip() { after_ *= 2; }

 private:
  static constexpr std::chrono::seconds kFirst{10};
  Deadline::Clock::time_point next() const { return begin_ + after_; }

  Deadline deadline_;
  Deadline::Clock::time_point begin_ = Deadline::Clock::now();
  std::chrono::seconds after_ = kFirst;
};

}  // namespace banyan::run
