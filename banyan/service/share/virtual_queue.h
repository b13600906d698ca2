// VirtualQueue: the rate at which one tenant may use one link, as the queue that it would have on a private link of
// that rate (AQ, SIGCOMM'23). The owner of the sender *delays* what a switch would drop: bytes may leave when the queue
// of what left before, drained at the rate, is no longer than the burst.
//
//   may leave at max(now, T - burst / rate); then T = max(T, now) + bytes / rate
//
// T is when the private link has carried all that has left. So in every interval of length t, what leaves at these
// times is at most rate * t + burst and one piece more. Kept as AQ does, by the backlog g = rate * (T - now), as a
// whole number of 10^-9 bytes: nothing is rounded but earliest(), up to a nanosecond, and no error adds up.
//
// Pure: the time comes from outside. One thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "banyan/base/fraction.h"

namespace banyan::service {

class VirtualQueue {
 public:
  using Time = std::chrono::nanoseconds;  // since any fixed moment; never goes back

  static constexpr uint64_t kUnlimited = 0;
  VirtualQueue() = default;
  // `rate` in bytes per second, kUnlimited: anything may leave at once; `burst` in bytes.
  VirtualQueue(uint64_t rate, uint64_t burst) : rate_(rate), burst_(burst) {}

  // From now on. The backlog in bytes stays, so that bytes that have left already count by the new rate. A link without
  // a limit has none.
  void set_rate(uint64_t rate, Time now);
  uint64_t rate() const { return rate_; }
  void set_burst(uint64_t burst) { burst_ = burst; }

  // The time at which the next bytes may leave: `now`, or later; Time::max() where that is too far away.
  Time earliest(Time now) const;
  // They leave now, whatever earliest() says.
  void leave(uint64_t bytes, Time now);
  // Bytes that have left and that the private link has not carried yet; one that it has carried in part counts.
  uint64_t backlog(Time now) const;

 private:
  int128 left_over(Time now) const;  // of the backlog

  uint64_t rate_ = kUnlimited, burst_ = 0;
  int128 backlog_ = 0;  // g at the time at_, in 10^-9 bytes: what a link of 1 B/s carries in a nanosecond
  Time at_{0};
};

}  // namespace banyan::service
