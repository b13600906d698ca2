// AwakeTime: the time in which this process ran, by which deadlines are measured.
//
// A job that is stopped (SIGSTOP, a scheduler that suspends it, a debugger) for longer than its timeouts, or a machine
// that sleeps, has not waited in vain: nobody could have come. The kernel does not tell a process how long it stood
// still. So a waiting thread looks at the clock again and again, and between two looks of the process no more than
// kLongestGap counts. A thread that measures a deadline looks at least every kLongestSleep while it waits; a Reactor
// does so while it has timers.
//
// It never goes backwards, and never ahead of the steady clock. It counts less than went by while no thread looks:
// measure with it only what a thread waits for.
//
// Any thread. The usual price is a look at the steady clock and four loads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <thread>

#include "banyan/run/system/time_source.h"

namespace banyan::run {

class AwakeTime final : public TimeSource {
 public:
  // So long a waiter sleeps at most before it looks again.
  static constexpr std::chrono::milliseconds kLongestSleep{100};
  // A waiter may be late on a busy machine. In the rest of a longer gap the process has not run.
  static constexpr std::chrono::milliseconds kLongestGap{250};

  // That of this process. It has the state, so all use this one.
  static const AwakeTime& instance();
  // `time` outlives it. For tests.
  explicit AwakeTime(const TimeSource& time) : time_(time) {}

  TimePoint now() const override;

 private:
  using Duration = TimePoint::duration;
  TimePoint look(TimePoint real) const;

  const TimeSource& time_;
  // The real time at the last look, and how much of it has not counted until then. A pair is read whole when `version_`
  // is even before and after, and the same. Orders (testing/orders): a reader of a number of a later pair, by acquire
  // of its release, sees a later version when it looks again, relaxed; so the odd version is stored relaxed. The even
  // one is a release and read by an acquire, so that none of its pair is older. `looker_` is a lock.
  mutable std::atomic<Duration::rep> looked_at_{0}, left_out_{0};
  mutable std::atomic<uint32_t> version_{0};
  mutable std::atomic<int32_t> looker_{0};  // the process of which a thread changes the pair; 0: none
};

// The same in the shape of a clock of the standard library. Its moments are not those of std::chrono::steady_clock: a
// thread that sleeps until one of them sleeps for the time left, in pieces of AwakeTime::kLongestSleep.
struct AwakeClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  static time_point now() { return AwakeTime::instance().now(); }
};

// The time left until `end`, and no more than one sleep; rounded up, never negative.
inline std::chrono::milliseconds next_sleep(AwakeClock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - AwakeClock::now());
  return std::clamp(left, std::chrono::milliseconds(0), AwakeTime::kLongestSleep);
}

// While it lives, a thread of its own looks at the clock: for a thread that calls something that may block for long,
// such as the resolver of host names.
class AwakeTicks {
 public:
  AwakeTicks();
  ~AwakeTicks();
  AwakeTicks(const AwakeTicks&) = delete;
  AwakeTicks& operator=(const AwakeTicks&) = delete;

 private:
  std::promise<void> over_;
  std::thread thread_;
};

}  // namespace banyan::run
