// AwakeTime: the time in which this process ran. By it deadlines are measured.
//
// A job that is stopped (SIGSTOP, a scheduler that suspends it, a debugger) for longer than its timeouts, or a machine
// that sleeps, has not waited in vain: nobody could have come. The kernel does not tell a process how long it stood
// still. So the clock is looked at again and again by whoever waits, and between two looks of the process no more than
// kLongestGap counts. Whoever measures a deadline looks at least every kLongestSleep while it waits; a Reactor does so
// while it has timers.
//
// It never goes backwards, and never ahead of the steady clock. Where no thread looks, it counts less than went by:
// measure with it only what somebody waits for.
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
  // A waiter may be late on a busy machine. What is longer, the process has not run.
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
  // What the last look saw of the real time, and how much of that has not counted until then. A pair is read whole when
  // `version_` is even before and after, and the same. Orders (testing/orders): who reads a number of a later pair, by
  // acquire of its release, sees a later version when he looks again, relaxed; so the odd version is stored relaxed.
  // The even one is a release and read by an acquire, so that none of its pair is older. `looker_` is a lock.
  mutable std::atomic<Duration::rep> looked_at_{0}, left_out_{0};
  mutable std::atomic<uint32_t> version_{0};
  mutable std::atomic<int32_t> looker_{0};  // the process of which a thread changes the pair; 0: none
};

// The same in the shape of a clock of the standard library. Its moments are not those of std::chrono::steady_clock: who
// sleeps until one of them sleeps for what is left of it, in pieces of AwakeTime::kLongestSleep.
struct AwakeClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  static time_point now() { return AwakeTime::instance().now(); }
};

// What is left until `end`, and no more than one sleep; rounded up, never negative.
inline std::chrono::milliseconds next_sleep(AwakeClock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - AwakeClock::now());
  return std::clamp(left, std::chrono::milliseconds(0), AwakeTime::kLongestSleep);
}

// Whether it is ready; false at `end`.
template <typename T>
bool is_ready_before(const std::future<T>& future, AwakeClock::time_point end) {
  for (;;) {
    const std::chrono::milliseconds sleep = next_sleep(end);
    if (future.wait_for(sleep) == std::future_status::ready) return true;
    if (sleep.count() == 0) return false;
  }
}

// While it lives, a thread of its own looks at the clock: for who calls something that may block for long, such as the
// resolver of host names.
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
