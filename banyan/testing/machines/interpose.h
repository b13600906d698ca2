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

// A call, from its beginning to its end: what is allocated in between is the world's. False for one that should go to
// the real function.
class Entry {
 public:
  explicit Entry(Nanoseconds cost) : is_inside_(enters(cost)) { count(); }
  explicit Entry(int fd) : is_inside_(enters(fd)) { count(); }
  explicit operator bool() const { return is_inside_; }
  // Whether this is the call that is to fail.
  bool fails() const { return world->own().fails_call(); }

 private:
  void count() const {
    if (is_inside_ && ++world->own().calls == world->own().dies_at) world->end(world->own());
  }

  const Unfailing scope_;
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
