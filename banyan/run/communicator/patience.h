// Patience: how long this rank has waited in vain. One for each communicator, by which every kind of waiting is timed.
//
// Time counts while somebody waits and nothing moves; it begins anew whenever something comes nearer to its end. For a
// call that all ranks make, this rank waits as long as the call is under way. For a message between two ranks, a thread
// waits only if it says so: by a Waiter (wait, wait_any, finalize), or by asking again and again whether it is done
// (test; wait_for, which has a time of its own). Asking counts from one time to the next if no more than kLongestGap
// lies between. So a message that nobody waits for may be late as long as it likes.
//
// A gap between two looks that is longer than kLongestGap counts as kLongestGap for a call, and not at all for a
// message: nobody has looked, so nobody has waited.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "banyan/run/system/awake_time.h"
#include "banyan/run/system/time_source.h"

namespace banyan::run {

class Patience {
 public:
  using TimePoint = TimeSource::TimePoint;
  using Duration = TimePoint::duration;
  static constexpr Duration kLongestGap = AwakeTime::kLongestGap;

  Patience() = default;
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  // While it lives, a thread waits. Any thread.
  class Waiter {
   public:
    explicit Waiter(Patience& patience) : patience_(patience) {
      patience_.waiters_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Waiter() { patience_.waiters_.fetch_sub(1, std::memory_order_relaxed); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    Patience& patience_;
  };
  // Somebody has asked whether something is done, in vain. Any thread.
  void asked() { questions_.fetch_add(1, std::memory_order_relaxed); }

  // ---- By the thread that drives ----

  // Something has moved, or a new wait begins now.
  void begin(TimePoint now) {
    waited_ = Duration::zero();
    looked_at_ = counted_until_ = now;
  }
  // A look in vain. `has_calls`: calls of all ranks are under way.
  void look(TimePoint now, bool has_calls) {
    const bool counted = counts_;
    counts_ = has_calls || waiters_.load(std::memory_order_relaxed) > 0;
    const Duration gap = now - looked_at_;
    looked_at_ = now;
    if (counted && counts_) count(gap <= kLongestGap ? gap : has_calls ? kLongestGap : Duration::zero());
    if (is_asked_again(now)) {
      count(now - std::max(asked_at_before_, counted_until_));
      counts_ = true;
    }
  }
  // The thread has looked at other things, for the sake of this wait, until now.
  void go_on(TimePoint now) {
    const Duration gap = now - std::exchange(looked_at_, now);
    if (counts_) count(gap);
  }
  // True if time counts, as of the last look.
  bool counts() const { return counts_; }
  // The time counted since begin().
  Duration waited() const { return waited_; }

 private:
  // Until the last look.
  void count(Duration time) {
    waited_ += std::max(time, Duration::zero());
    counted_until_ = looked_at_;
  }
  // True if a thread has asked since the last look, and at most kLongestGap earlier, too, so that it has waited
  // meanwhile.
  bool is_asked_again(TimePoint now) {
    const uint64_t questions = questions_.load(std::memory_order_relaxed);
    if (questions == questions_seen_) return false;
    questions_seen_ = questions;
    asked_at_before_ = std::exchange(asked_at_, now);
    return now - asked_at_before_ <= kLongestGap;
  }

  std::atomic<uint32_t> waiters_{0};
  std::atomic<uint64_t> questions_{0};

  // Used only by the thread that drives.
  uint64_t questions_seen_ = 0;
  TimePoint asked_at_{Duration::min() / 2}, asked_at_before_ = asked_at_;  // the first is long ago
  TimePoint looked_at_, counted_until_;
  Duration waited_{0};
  bool counts_ = false;
};

}  // namespace banyan::run
