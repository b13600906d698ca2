// EventSource: something a thread can wait for, and that never waits itself.
//
// Before it sleeps, a thread asks each of its sources what may end the sleep: descriptors, a deadline, or work that is
// there already. Afterwards it tells each what happened. So one thread serves any number of transports with one sleep
// (waiter.h).
#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace banyan::run {

// The events that may end one sleep.
class WaitSet {
 public:
  using Clock = std::chrono::steady_clock;

  // `events` as poll(2) calls them.
  void watch(int fd, short events) { watch_kept(fd, events, 0); }
  // The same for one of some descriptors that are all open since the number `since` was drawn: a poller that has
  // watched them with it before may keep what it has told the kernel of them. 0: nothing is known.
  void watch_kept(int fd, short events, uint64_t since) {
    polled_.push_back({.fd = fd, .events = events, .revents = 0});
    since_.push_back(since);
  }
  // Any thread.
  static uint64_t draw_number() {
    static std::atomic<uint64_t> numbers{0};
    return ++numbers;
  }
  // The earliest of the moments counts.
  void wake_at(Clock::time_point moment) { deadline_ = std::min(deadline_, moment); }
  // There is work already: the thread only looks at the descriptors.
  void work_now() { deadline_ = Clock::time_point::min(); }

 private:
  friend class Waiter;
  friend class Poller;
  std::vector<pollfd> polled_;
  std::vector<uint64_t> since_;  // by descriptor
  Clock::time_point deadline_ = Clock::time_point::max();
};

class EventSource {
 public:
  // Adds what may make a call succeed that moved nothing before.
  virtual void prepare(WaitSet& set) = 0;
  // After the sleep: `polled` are the descriptors that prepare() added, in their order, with what happened to them.
  // True when such a call may succeed now.
  virtual bool react(std::span<const pollfd> polled) = 0;

 protected:
  ~EventSource() = default;
};

}  // namespace banyan::run
