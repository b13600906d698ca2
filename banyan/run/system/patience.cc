#include "banyan/run/system/patience.h"

#include <sched.h>

#include <cstdlib>
#include <string_view>

namespace banyan {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool is_crowded(uint32_t processes) {
  const char* const said = std::getenv("BANYAN_CROWDED");
  if (said != nullptr && std::string_view(said) == "1") return true;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return true;  // more cores than the set holds: rare, and safe
  return processes > static_cast<uint32_t>(CPU_COUNT(&cores));
}

bool Patience::rest() {
  if (looks_ >= limit_ + yields_) return false;
  if (looks_ < limit_) {
    relax();
  } else {
    sched_yield();
  }
  return true;
}

}  // namespace banyan
