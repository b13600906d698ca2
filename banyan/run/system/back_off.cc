#include "banyan/run/system/back_off.h"

#include <sched.h>

namespace banyan::run {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool BackOff::rest() {
  using Clock = std::chrono::steady_clock;
  if (looks_ < limit_) {
    relax();
    return true;
  }
  if (looks_ >= limit_ + yields_ || waits_asleep_ > 0) return false;
  const Clock::time_point before = Clock::now();
  sched_yield();
  if (Clock::now() - before > kLongTurn) waits_asleep_ = kWaitsAsleep;
  return true;
}

}  // namespace banyan::run
