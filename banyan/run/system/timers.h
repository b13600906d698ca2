// Timers: the time, and functions that are called when it has come. Behind it is a Reactor, or a simulated world.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "banyan/run/system/time_source.h"

namespace banyan::run {

// One thread.
class Timers : public TimeSource {
 public:
  using Timer = std::pair<TimePoint, uint64_t>;

  // Calls `task` once, at that moment or later, never before at() returns.
  virtual Timer at(TimePoint when, std::function<void()> task) = 0;
  Timer after(TimePoint::duration delay, std::function<void()> task) { return at(now() + delay, std::move(task)); }
  // Past and unknown ones are ignored.
  virtual void cancel(const Timer& timer) = 0;
};

}  // namespace banyan::run
