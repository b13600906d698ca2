// DriveLock: one thread at a time drives a communicator, which means that it moves what is under way.
//
// The others wait until the driver has brought about what they want, or until it gives the lock back; they sleep
// meanwhile, and miss neither. Threads that wait announce it by a Waiter: a progress thread gives way to them.
//
// A thread that drives alone pays only one atomic exchange a call. A driver that gives the lock back must see the
// threads that sleep, or they must see that it is free. That takes a barrier between the driver's store and its load,
// which would wait for whatever the processor has yet to write, just after a call has written for other ranks. So the
// barrier is made by the thread that goes to sleep, for all threads of the process (memory_barrier.h); by the driver
// only where the kernel has none.
//
// Orders (testing/orders). The lock is taken with acquire and given back with release. A thread that goes to sleep
// counts itself in `sleepers_` and then looks at the lock, and at whatever else is enough for it; the driver stores one
// of these and then looks at `sleepers_`: all sequentially consistent, except that the lock is given back with release,
// for which there is the barrier. `announcements_` grows with release and is loaded with acquire, since a thread that
// has read a number looks for what was announced by it. Waiters are counted relaxed: they are a hint, which is seen in
// the end.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "banyan/run/system/futex.h"
#include "banyan/run/system/memory_barrier.h"

namespace banyan::run {

class DriveLock {
 public:
  class Waiter {
   public:
    explicit Waiter(DriveLock& lock) : lock_(lock) { lock_.waiters_.fetch_add(1, std::memory_order_relaxed); }
    ~Waiter() { lock_.waiters_.fetch_sub(1, std::memory_order_relaxed); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    DriveLock& lock_;
  };

  bool try_take() { return !is_taken_.exchange(true, std::memory_order_acquire); }
  void give_back() {
    is_taken_.store(false, std::memory_order_release);
    if (has_barriers_) {
      order_for_barriers();
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    announce();
  }
  bool is_taken() const { return is_taken_.load(std::memory_order_seq_cst); }
  bool has_waiters() const { return waiters_.load(std::memory_order_relaxed) > 0; }

  // Called by the driver, after something that a thread may wait for: has the sleeping threads look again. Whatever
  // they look at must have been written with memory_order_seq_cst.
  void announce() {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    announcements_.fetch_add(1, std::memory_order_release);
    futex_wake_all(announcements_);
  }
  // Sleeps until the lock is free, or an announcement, or for so long; not at all when `is_enough`. Returns in all
  // these cases, and sometimes for nothing.
  template <typename IsEnough>
  void sleep(IsEnough is_enough, std::chrono::milliseconds at_most) {
    // A sleeper may be overlooked if barriers were forbidden after the start: then it looks again soon.
    constexpr std::chrono::milliseconds kOverlooked{1};
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (has_barriers_ && !barrier_in_process()) at_most = std::min(at_most, kOverlooked);
    const uint32_t seen = announcements_.load(std::memory_order_acquire);
    if (is_taken() && !is_enough()) futex_wait(announcements_, seen, at_most);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  const bool has_barriers_ = register_for_own_barriers();
  std::atomic<bool> is_taken_{false};
  std::atomic<uint32_t> waiters_{0};
  std::atomic<uint32_t> sleepers_{0}, announcements_{0};
};

}  // namespace banyan::run
