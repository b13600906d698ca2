// The functions that stand in place of libc's, and what they have in common. interpose_threads.cc has time, threads,
// locks and futexes; interpose_sockets.cc sockets and descriptors; interpose_host.cc processes, memory, names of hosts,
// files and chance. In threads of a simulated process they ask the Kernel; everywhere else they are the real ones.
#pragma once

#include <sys/socket.h>
#include <time.h>

#include <cerrno>

#include "banyan/testing/machines/kernel.h"
#include "banyan/testing/machines/real_calls.h"

namespace banyan::testing::machines {

// They do nothing; a program that calls them is linked with these files, as one that runs a world must be.
void link_threads();
void link_sockets();
void link_host();

constexpr Nanoseconds kEpoch = 1'700'000'000 * kSecond;  // of the calendar, when a world begins
constexpr Nanoseconds kUptime = 3600 * kSecond;          // of the steady clock, when a world begins
constexpr Nanoseconds kCall = 400, kLook = 60;           // what a call costs, and reading a clock

// Lets time pass for a call, unless the thread is a real one: then it should go to the real function.
inline bool enters(Nanoseconds cost = kCall) {
  if (world == nullptr || Scheduler::current() == nullptr) return false;
  const int error = errno;
  world->scheduler().spend(cost);
  errno = error;
  return true;
}
inline bool is_simulated_here() { return world != nullptr && Scheduler::current() != nullptr; }
inline bool enters(int fd) { return Kernel::is_simulated(fd) && enters(); }

// Whether code at `address` is libcrypto's.
bool is_in_libcrypto(const void* address);

// While it lives, the thread is in a call that code at `caller` makes. A process that dies within libcrypto takes its
// locks along; here all processes share them, so it does not die there.
class CallOf {
 public:
  explicit CallOf(const void* caller)
      : process_(is_simulated_here() && is_in_libcrypto(caller) ? &world->own() : nullptr) {
    if (process_ != nullptr) ++process_->in_libcrypto;
  }
  ~CallOf() {
    if (process_ != nullptr) --process_->in_libcrypto;
  }
  CallOf(const CallOf&) = delete;
  CallOf& operator=(const CallOf&) = delete;

 private:
  Process* const process_;
};

// A call, from its beginning to its end: what is allocated in between is the world's. False for one that should go to
// the real function. Made in a function that stands in place of libc's, whose caller it looks at.
class Entry {
 public:
  [[gnu::always_inline]] explicit Entry(Nanoseconds cost)
      : call_(__builtin_return_address(0)), is_inside_(enters(cost)) {
    count();
  }
  [[gnu::always_inline]] explicit Entry(int fd) : call_(__builtin_return_address(0)), is_inside_(enters(fd)) {
    count();
  }
  explicit operator bool() const { return is_inside_; }
  // Whether this is the call that is to fail.
  bool fails() const { return world->own().fails_call(); }

 private:
  void count() const {
    if (!is_inside_) return;
    Process& own = world->own();
    if (++own.calls >= own.dies_at && own.dies_at > 0 && own.in_libcrypto == 0) world->end(own);
  }

  const Unfailing scope_;
  const CallOf call_;
  const bool is_inside_;
};

inline Nanoseconds nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
inline Nanoseconds end_after(const timespec* time) {
  return time == nullptr ? kNever : world->scheduler().now() + nanoseconds(*time);
}
inline Nanoseconds end_after_ms(int time) {
  return time < 0 ? kNever : world->scheduler().now() + time * (kSecond / 1000);
}
// Of a moment on one of the clocks of users.
inline Nanoseconds end_at(clockid_t clock, const timespec& time) {
  return nanoseconds(time) - (clock == CLOCK_REALTIME ? kEpoch : kUptime);
}

// Into a sockaddr of a user.
void put(const Address& from, sockaddr* into, socklen_t* size);

}  // namespace banyan::testing::machines
