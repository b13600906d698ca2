#include "banyan/run/system/run_delay.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// "<ns that it ran> <ns that it waited> <turns>"
std::optional<RunDelay> run_delay() {
  const FileDescriptor file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  std::array<char, 128> text{};
  if (read(file.get(), text.data(), text.size() - 1) <= 0) return std::nullopt;
  uint64_t ran = 0, waited = 0, turns = 0;
  if (std::sscanf(text.data(), "%" SCNu64 " %" SCNu64 " %" SCNu64, &ran, &waited, &turns) != 3) return std::nullopt;
  return RunDelay{.waited = std::chrono::nanoseconds(waited), .turns = turns};
}

}  // namespace banyan::run
