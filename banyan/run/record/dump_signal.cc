#include "banyan/run/record/dump_signal.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <mutex>

#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"
#include "banyan/run/system/thread.h"

namespace banyan::run {
namespace {

// Of the handler, set before it is installed.
std::atomic<int> wake_fd{-1};
std::atomic<pid_t> owner{0};

// The list of whom to call; never freed, since the thread uses it until the process ends.
struct Listeners {
  std::mutex mutex;  // held while one is called, so that the end of a registration waits for it
  std::list<std::function<void()>> writes;
};
Listeners& listeners() {
  static auto* const all = new Listeners();
  return *all;
}

// In a forked child nobody listens, and its parent was not meant.
void wake(int) {
  const int error = errno;
  const uint64_t one = 1;
  if (getpid() == owner.load()) [[maybe_unused]]
    const ssize_t ignored = write(wake_fd.load(), &one, sizeof one);
  errno = error;
}

[[noreturn]] void serve() {
  for (;;) {
    uint64_t count = 0;
    if (read(wake_fd.load(), &count, sizeof count) != sizeof count) continue;
    const std::lock_guard lock(listeners().mutex);
    for (const std::function<void()>& write : listeners().writes) write();
  }
}

}  // namespace

std::optional<int> dump_signal_from_environment() {
  const char* const text = std::getenv("BANYAN_DUMP_SIGNAL");
  return dump_signal_of(text == nullptr || *text == '\0' ? "USR1" : text);
}

std::optional<int> dump_signal_of(const std::string& name) {
  if (name == "none") return std::nullopt;
  if (name == "USR1" || name == "SIGUSR1") return SIGUSR1;
  if (name == "USR2" || name == "SIGUSR2") return SIGUSR2;
  throw Error(ErrorCode::invalid_input, "BANYAN_DUMP_SIGNAL=" + name + " is to be USR1, USR2 or none");
}

void start_dump_signal(std::optional<int> signal) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!signal || owner.load() == getpid()) return;
  struct sigaction present {};
  if (sigaction(*signal, nullptr, &present) != 0) throw system_error("cannot look at a signal");
  // Of a process that was forked from one that answers, the handler is ours already.
  const bool is_ours = (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == wake;
  const bool is_free = (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == SIG_DFL;
  if (!is_ours && !is_free) return;
  const int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) throw system_error("cannot make an eventfd");
  wake_fd = fd;
  start_thread("banyan-dump", serve).detach();
  owner = getpid();
  struct sigaction ours {};
  ours.sa_handler = wake;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  if (sigaction(*signal, &ours, nullptr) != 0) throw system_error("cannot handle a signal");
}

DumpRegistration on_dump_signal(std::function<void()> write) {
  Listeners& all = listeners();
  std::list<std::function<void()>>::iterator place;
  {
    const std::lock_guard lock(all.mutex);
    place = all.writes.insert(all.writes.end(), std::move(write));
  }
  // Where there is no memory for this, it erases at once, under the lock.
  return {nullptr, [&all, place](void*) {
            const std::lock_guard end(all.mutex);
            all.writes.erase(place);
          }};
}

}  // namespace banyan::run
