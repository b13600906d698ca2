// Alarm: a timer that goes with its owner.
//
// It is set from set() until it is cancelled, or its task begins: the task may set it again, or destroy it.
//
// One thread, that of the timers, which outlive it.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "banyan/run/system/timers.h"

namespace banyan::run {

class Alarm {
 public:
  Alarm() = default;
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() { cancel(); }

  bool is_set() const { return timer_.has_value(); }
  // In place of what it was set to before.
  void set(Timers& timers, TimeSource::TimePoint when, std::function<void()> task) {
    cancel();
    timers_ = &timers;
    timer_ = timers.at(when, [this, task = std::move(task)] {
      timer_.reset();
      task();
    });
  }
  void set_after(Timers& timers, TimeSource::TimePoint::duration delay, std::function<void()> task) {
    set(timers, timers.now() + delay, std::move(task));
  }
  void cancel() {
    if (timer_) timers_->cancel(*timer_);
    timer_.reset();
  }

 private:
  Timers* timers_ = nullptr;
  std::optional<Timers::Timer> timer_;
};

}  // namespace banyan::run
