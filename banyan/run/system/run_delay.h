// The time for which a thread has waited for a core although it could run, as the kernel's scheduler counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace banyan::run {

struct RunDelay {
  std::chrono::nanoseconds waited{0};  // since it began
  uint64_t turns = 0;                  // that it has got
};

// The delay of the calling thread; none if the kernel does not count it. Reads a file of /proc, in some microseconds.
// Any thread.
std::optional<RunDelay> run_delay();

}  // namespace banyan::run
