// VirtualQueue: the rate at which one tenant may use one link, as the queue that it would have on a private link of
// that rate (AQ, SIGCOMM'23). The owner of the sender *delays* what a switch would drop: bytes may leave when the queue
// of what left before, drained at the rate, is no longer than the burst.
//
//   may leave at max(now, T - burst / rate); then T = max(T, now) + bytes / rate
//
// T is when the private link has carried all that has left. Pure: the time comes from outside. One thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace banyan::service {

class VirtualQueue {
 public:
  using Time = std::chrono::nanoseconds;  // since any fixed moment; never goes back

  static constexpr uint64_t kUnlimited = 0;
  VirtualQueue() = default;
  // `rate` in bytes per second, kUnlimited: anything may leave at once; `burst` in bytes.
  VirtualQueue(uint64_t rate, uint64_t burst) : rate_(rate), burst_(burst) {}

  // From now on. What has left already counts by the new rate: the backlog in bytes stays.
  void set_rate(uint64_t rate, Time now);
  uint64_t rate() const { return rate_; }

  // When the next bytes may leave: `now`, or later.
  Time earliest(Time now) const;
  // They leave now, whatever earliest() says.
  void leave(uint64_t bytes, Time now);
  // Bytes that have left and that the private link has not carried yet.
  uint64_t backlog(Time now) const;

 private:
  uint64_t rate_ = kUnlimited, burst_ = 0;
  Time carried_at_{0};  // T
};

}  // namespace banyan::service
