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
  if (looks_ >= limit_ + yields_) return false;
  if (looks_ < limit_) {
    relax();
  } else {
    sched_yield();
  }
  return true;
}

}  // namespace banyan::run
