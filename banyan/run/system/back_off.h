// BackOff: how to wait for another process without being late and without wasting a core.
//
// A rank that waits for a peer looks again and again. At first it only looks, since a peer on another core answers
// within a hundred nanoseconds; then it rests between looks, then it lets others run, and at last it should sleep. If
// ranks outnumber cores the peer may be waiting for this very core, so the core is given up at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace banyan::run {

// It learns: where waits end only after others were let run, the core is given up sooner the next time.
class BackOff {
 public:
  // The cost of a look: a few loads from memory, or system calls.
  enum class Look : uint8_t { cheap, dear };
  explicit BackOff(bool is_oversubscribed, Look look = Look::cheap)
      : least_(look == Look::cheap ? kLeast : kLeastDear),
        most_(is_oversubscribed     ? least_
              : look == Look::cheap ? kMost
                                    : kMostDear),
        yields_(look == Look::cheap ? kYields
                : is_oversubscribed ? kMostDear
                                    : kYieldsDear),
        limit_(most_) {}

  // The same for a thread beside the program's own, which should have the core: looks little, lets others run, then
  // sleeps.
  BackOff modest() const {
    BackOff modest = *this;
    modest.most_ = modest.limit_ = least_;
    modest.yields_ = std::min(yields_, 100u);
    return modest;
  }

  // The same for a thread that is woken at once by what it waits for, so that letting others run is of no use: it
  // sleeps.
  BackOff sleeping() const {
    BackOff sleeping = *this;
    sleeping.yields_ = 0;
    return sleeping;
  }

  // Begins a wait.
  void begin() { looks_ = 0; }
  // To be called after a look in vain. False when it is time to sleep.
  bool pause() {
    if (++looks_ < std::min(limit_, kLooks)) return true;
    return rest();
  }
  // After a sleep in vain: a few looks, then sleep again.
  void slept() { looks_ = limit_ + std::max(yields_ - std::min(yields_, 4u), 1u); }
  // The event that was waited for has come; the next wait begins.
  void end() {
    if (looks_ > limit_) {
      limit_ = std::max(limit_ / 2, least_);
    } else if (looks_ > 0) {
      limit_ = std::min(limit_ + limit_ / 8 + 1, most_);
    }
    if (waits_asleep_ > 0) --waits_asleep_;
    looks_ = 0;
  }

 private:
  bool rest();

  static constexpr uint32_t kLooks = 300;  // without a pause between
  // Looks, of which all but the first ones follow a pause of some 50 ns, before others are let run between looks. The
  // most is longer than the kernel takes to wake up a process on an idle core.
  static constexpr uint32_t kLeast = 8, kMost = 3000;
  static constexpr uint32_t kYields = 300;  // then it is time to sleep
  // A dear look takes some microseconds, so that these amount to no more time. If cores are short, others are let run
  // after each of kMostDear looks.
  static constexpr uint32_t kLeastDear = 1, kMostDear = 30, kYieldsDear = 2;
  // Others that kept the core for longer than this compute: kWaitsAsleep of the next waits end by sleep instead. A rank
  // that lets others run may lose a whole slice of some milliseconds, a sleeper that is woken comes soon.
  static constexpr std::chrono::microseconds kLongTurn{1000};
  static constexpr uint32_t kWaitsAsleep = 20;
  uint32_t least_, most_, yields_;
  uint32_t waits_asleep_ = 0;
  uint32_t looks_ = 0, limit_;
};

}  // namespace banyan::run
