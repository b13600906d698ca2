// What a small call costs a daemon: the system calls of its worker, counted in place of libc. A program of its own,
// since it defines functions of libc.
//
// How often a worker looks in vain and lets others run depends on the kernel's choice among four processes, so what is
// claimed of that are bounds. So does how soon a call follows another: its confirmation goes with the next one, or
// alone.
#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <iostream>

#include "banyan/base/check.h"
#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/shared_among_processes.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

enum class SystemCall : uint32_t { send, receive, receive_in_vain, epoll_ctl, epoll_wait, poll, yield, futex };
constexpr size_t kSystemCalls = 8;

// Of one process.
struct SystemCallCounts {
  std::array<uint64_t, kSystemCalls> number{};

  uint64_t operator[](SystemCall call) const { return number[static_cast<size_t>(call)]; }
  SystemCallCounts operator-(const SystemCallCounts& other) const;
  // "2.01 sendmsg, 3.1 recv (2.1 in vain), ...", of so many calls of a communicator.
  std::string for_each_of(uint64_t calls) const;
};

// In memory that forked processes share; each counts in a place of its own.
class SystemCallCounters {
 public:
  static constexpr uint32_t kPlaces = 16;

  // Of this process: from now on its threads of this name count in this place.
  void count_here(uint32_t place, const char* thread_name);
  SystemCallCounts of(uint32_t place) const;

 private:
  using Page = std::array<std::array<std::atomic<uint64_t>, kSystemCalls>, kPlaces>;
  testing::SharedAmongProcesses<Page> page_;
};

// Of this process: where it counts; null: nowhere.
std::array<std::atomic<uint64_t>, kSystemCalls>* own_counters = nullptr;
const char* counted_thread = "";

bool is_counted_thread() {
  std::array<char, 16> name{};
  return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
         std::string_view(name.data()) == counted_thread;
}

void count(SystemCall call) {
  if (own_counters == nullptr) return;
  static thread_local const bool is_counted = is_counted_thread();
  if (is_counted) (*own_counters)[static_cast<size_t>(call)].fetch_add(1, std::memory_order_relaxed);
}

// The function of libc, or of what else stands in its place.
template <typename Function>
Function* next_of(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  CHECK(found != nullptr) << name;
  return reinterpret_cast<Function*>(found);
}

SystemCallCounts SystemCallCounts::operator-(const SystemCallCounts& other) const {
  SystemCallCounts difference;
  for (size_t i = 0; i < kSystemCalls; ++i) difference.number[i] = number[i] - other.number[i];
  return difference;
}

std::string SystemCallCounts::for_each_of(uint64_t calls) const {
  constexpr std::array<const char*, kSystemCalls> kNames{"sendmsg",    "recv",  "recv in vain", "epoll_ctl",
                                                         "epoll_wait", "ppoll", "sched_yield",  "futex"};
  std::ostringstream words;
  words.precision(3);
  for (size_t i = 0; i < kSystemCalls; ++i) {
    words << (i == 0 ? "" : ", ") << static_cast<double>(number[i]) / static_cast<double>(calls) << ' ' << kNames[i];
  }
  return words.str();
}

void SystemCallCounters::count_here(uint32_t place, const char* thread_name) {
  counted_thread = thread_name;
  own_counters = &page_->at(place);
}

SystemCallCounts SystemCallCounters::of(uint32_t place) const {
  SystemCallCounts counts;
  for (size_t i = 0; i < kSystemCalls; ++i) counts.number[i] = page_->at(place)[i].load(std::memory_order_relaxed);
  return counts;
}

}  // namespace
}  // namespace banyan::service

// ---- In place of libc ----

using banyan::service::count;
using banyan::service::next_of;
using banyan::service::SystemCall;

extern "C" {

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto next = next_of<decltype(sendmsg)>("sendmsg");
  count(SystemCall::send);
  return next(fd, message, flags);
}

ssize_t recv(int fd, void* into, size_t size, int flags) {
  static const auto next = next_of<decltype(recv)>("recv");
  const ssize_t received = next(fd, into, size, flags);
  const int error = errno;
  count(received < 0 ? SystemCall::receive_in_vain : SystemCall::receive);
  errno = error;
  return received;
}

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  static const auto next = next_of<decltype(epoll_ctl)>("epoll_ctl");
  count(SystemCall::epoll_ctl);
  return next(epoll, operation, fd, event);
}

int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  static const auto next = next_of<decltype(epoll_wait)>("epoll_wait");
  count(SystemCall::epoll_wait);
  return next(epoll, events, most, timeout);
}

int ppoll(pollfd* polled, nfds_t number, const timespec* timeout, const sigset_t* signals) {
  static const auto next = next_of<decltype(ppoll)>("ppoll");
  count(SystemCall::poll);
  return next(polled, number, timeout, signals);
}

int sched_yield() noexcept {
  static const auto next = next_of<decltype(sched_yield)>("sched_yield");
  count(SystemCall::yield);
  return next();
}

long syscall(long number, ...) noexcept {
  static const auto next = next_of<decltype(syscall)>("syscall");
  if (number == SYS_futex) count(SystemCall::futex);
  std::array<long, 6> words{};
  va_list list;
  va_start(list, number);
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

}  // extern "C"

namespace banyan::service {
namespace {

class SmallCalls : public Services {
 protected:
  SmallCalls() {
    daemon_begins_ = [this](uint32_t host) { counters_.count_here(host, "banyan-worker"); };
  }

  // Of the daemon of each host, while its rank makes so many calls of one element, one after the other, with pauses.
  std::vector<SystemCallCounts> counts_of(uint32_t ranks, uint64_t calls, std::chrono::milliseconds pause = {}) {
    const testing::SharedAmongProcesses<std::array<SystemCallCounts, SystemCallCounters::kPlaces>> took;
    expect_right(ranks, ranks, [&](run::Communicator& comm, run::RegionPool&) -> std::string {
      const auto call = [&] { return check_sum(comm, values_of(comm.rank(), 1), output_); };
      for (int i = 0; i < 100; ++i) call();  // connections are made, programs have come
      const SystemCallCounts before = counters_.of(comm.rank());
      for (uint64_t i = 0; i < calls; ++i) {
        if (const std::string report = call(); report != "right") return report;
        if (pause.count() > 0) std::this_thread::sleep_for(pause);
      }
      took->at(comm.rank()) = counters_.of(comm.rank()) - before;
      comm.run(run::Call{.kind = run::OperationKind::barrier});
      return "right";
    });
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::cout << "a call costs daemon " << rank << ": " << took->at(rank).for_each_of(calls) << std::endl;
    }
    return {took->begin(), took->begin() + ranks};
  }

  SystemCallCounters counters_;
  std::vector<int64_t> output_ = std::vector<int64_t>(1);
};

TEST_F(SmallCalls, ConfirmWithTheNextOne) {
  constexpr uint64_t kCalls = 3000;
  for (const SystemCallCounts& counts : counts_of(2, kCalls)) {
    // What the call is about; and its confirmation where the next call came late.
    EXPECT_GE(counts[SystemCall::send], kCalls);
    EXPECT_LT(counts[SystemCall::send], 2 * kCalls);
    EXPECT_LE(counts[SystemCall::receive], 2 * kCalls + 2);
    // What the worker waits for is the same each time.
    EXPECT_LE(counts[SystemCall::epoll_ctl], 20u);
    EXPECT_LE(counts[SystemCall::futex], kCalls + 100);
  }
}

TEST_F(SmallCalls, ConfirmAloneWhereNoneFollowsSoon) {
  constexpr uint64_t kCalls = 200;
  for (const SystemCallCounts& counts : counts_of(2, kCalls, std::chrono::milliseconds(2))) {
    EXPECT_GT(counts[SystemCall::send], kCalls) << "none waits for the next call";
    EXPECT_LE(counts[SystemCall::send], 2 * kCalls + 2);
    EXPECT_LE(counts[SystemCall::receive], 2 * kCalls + 2);
    // For the client, for the peer, and for the confirmation's time; nobody looks again and again.
    EXPECT_LE(counts[SystemCall::poll], 20 * kCalls);
  }
}

}  // namespace
}  // namespace banyan::service
