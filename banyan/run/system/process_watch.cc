#include "banyan/run/system/process_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "banyan/base/error.h"

namespace banyan::run {

std::optional<uint64_t> start_time_of(int32_t pid) {
  // Of its first thread, which is as old: of a process itself, emulators of processors (qemu) make some of it up.
  const std::string number = std::to_string(pid);
  std::ifstream file("/proc/" + number + "/task/" + number + "/stat");
  std::string line;
  // "4711 (name) S 1 ...": the name may hold blanks and brackets.
  if (!std::getline(file, line)) return {};
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  uint64_t ticks = 0;
  if (!(fields >> ticks)) return {};
  return ticks;
}

std::string status_of(int32_t pid, std::string_view field) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field) && line.substr(field.size(), 1) == ":") return line.substr(field.size() + 1);
  }
  return {};
}

bool has_ended(int32_t pid, uint64_t start_time) {
  const FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) return errno == ESRCH;
  if (start_time_of(pid) != start_time) return true;
  pollfd end{.fd = process.get(), .events = POLLIN, .revents = 0};
  return poll(&end, 1, 0) == 1;
}

ProcessWatch::~ProcessWatch() {
  for (const auto& [rank, process] : processes_) reactor_.forget(process.get());
  for (const auto& [rank, timer] : endings_) reactor_.cancel(timer);
}

void ProcessWatch::watch(uint32_t rank, int32_t pid, uint64_t start_time) {
  // First the descriptor, then the time: the process that had the time has not ended in between.
  FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));  // closes on exec by itself
  const bool does_not_exist = !process.is_open() && errno == ESRCH;
  // Unknown where there are no descriptors left to read it by, too, or the process has just ended, which is told later.
  const std::optional<uint64_t> started = process.is_open() ? start_time_of(pid) : std::nullopt;
  if (does_not_exist || (started && *started != start_time)) {
    endings_[rank] = reactor_.after({}, [this, rank] { end(rank); });
    return;
  }
  if (!process.is_open()) return;
  try {
    reactor_.watch(process.get(), EPOLLIN, [this, rank](uint32_t) { end(rank); });
  } catch (const Error&) {  // as documented: connections tell too
    return;
  }
  processes_[rank] = std::move(process);
}

void ProcessWatch::forget(uint32_t rank) {
  if (const auto found = processes_.find(rank); found != processes_.end()) {
    reactor_.forget(found->second.get());
    processes_.erase(found);
  }
  if (const auto found = endings_.find(rank); found != endings_.end()) {
    reactor_.cancel(found->second);
    endings_.erase(found);
  }
}

void ProcessWatch::end(uint32_t rank) {
  forget(rank);
  ended_(rank);
}

}  // namespace banyan::run
