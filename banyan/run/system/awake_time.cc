#include "banyan/run/system/awake_time.h"

#include <signal.h>
#include <unistd.h>

#include <system_error>

namespace banyan::run {

const AwakeTime& AwakeTime::instance() {
  // Never destroyed: threads may look at it while the process ends.
  static const auto* const time = new AwakeTime(*new SteadyTime());
  return *time;
}

AwakeTime::TimePoint AwakeTime::now() const {
  constexpr Duration kSoon = std::chrono::milliseconds(10);  // after a look another one need not be noted
  const TimePoint real = time_.now();
  const uint32_t version = version_.load(std::memory_order_acquire);
  const Duration looked_at(looked_at_.load(std::memory_order_acquire));
  const Duration left_out(left_out_.load(std::memory_order_acquire));
  const bool is_whole = version % 2 == 0 && version_.load(std::memory_order_relaxed) == version;
  if (!is_whole || real.time_since_epoch() - looked_at > kSoon) return look(real);
  // A thread that was interrupted between its look and here must not turn the time back.
  return TimePoint(std::max(real.time_since_epoch(), looked_at) - left_out);
}

// By one thread at a time. What a fork has copied of a thread that was here gives way.
AwakeTime::TimePoint AwakeTime::look(TimePoint real) const {
  const int32_t self = getpid();
  for (int32_t looker = 0; !looker_.compare_exchange_weak(looker, self, std::memory_order_acquire);) {
    if (looker != self) continue;
    looker = 0;
    std::this_thread::yield();
  }
  const uint32_t version = version_.load(std::memory_order_relaxed) | 1;
  version_.store(version, std::memory_order_relaxed);
  const Duration now = real.time_since_epoch(), before(looked_at_.load(std::memory_order_relaxed));
  Duration left_out(left_out_.load(std::memory_order_relaxed));
  if (before > Duration::zero()) left_out += std::max<Duration>(now - before - kLongestGap, Duration::zero());
  const Duration last = std::max(now, before);
  left_out_.store(left_out.count(), std::memory_order_release);
  looked_at_.store(last.count(), std::memory_order_release);
  version_.store(version + 1, std::memory_order_release);
  looker_.store(0, std::memory_order_release);
  return TimePoint(last - left_out);
}

AwakeTicks::AwakeTicks() {
  sigset_t all, before;  // signals are for the threads of the application
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([over = over_.get_future()] {
      while (over.wait_for(AwakeTime::kLongestSleep) != std::future_status::ready) AwakeClock::now();
    });
  } catch (const std::system_error&) {  // there can be no more threads: then what blocks counts for little
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

AwakeTicks::~AwakeTicks() {
  over_.set_value();
  if (thread_.joinable()) thread_.join();
}

}  // namespace banyan::run
