// RateGate: holds the slices of a session back, so that its calls go no faster than the steward says.
//
// All bytes of a call move in proportion, so one number says how fast it goes: the bytes per second on the link that it
// uses most. A slice is the same part of what this rank sends as of what goes over that link. So the gate is a virtual
// queue (share/virtual_queue.h) of bytes on that link: of the whole collective, and not only of this rank.
//
// A rate that is not said again for kValid counts no more: the steward may be gone. Nor does a call ever go faster than
// its links can: what is handed to the kernel beyond that only stands in queues, in the way of other tenants.
//
// One thread. admit() takes time O(1).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "banyan/run/engine/slice_gate.h"
#include "banyan/service/share/virtual_queue.h"

namespace banyan::service {

class RateGate : public run::SliceGate {
 public:
  using Time = VirtualQueue::Time;
  static constexpr Time kValid = std::chrono::seconds(2);
  // The burst that may leave at once, so that a thread that comes late loses nothing: the bytes that go in kLate, and
  // no less than kLeastBurst.
  static constexpr Time kLate = std::chrono::milliseconds(1);
  static constexpr uint64_t kLeastBurst = uint64_t{64} << 10;

  // `now` never goes back.
  explicit RateGate(std::function<Time()> now) : now_(std::move(now)) {}

  // Bytes per second on the busiest link, of the whole collective; VirtualQueue::kUnlimited: no limit.
  void set_rate(uint64_t rate);
  // The call with this number puts so many bytes on its busiest link (0: it uses none, and is not held back), and its
  // links let it go at `most`, as rates are given.
  void begin(uint64_t number, double busiest_bytes, uint64_t most = VirtualQueue::kUnlimited);
  // Its links, or what is granted to it, let it go at `most` from now on.
  void limit(uint64_t number, uint64_t most);
  void end(uint64_t number) { calls_.erase(number); }

  bool admit(const run::SliceOffer& offer) override;
  // The rate that was set last, while it counts; nothing: no limit.
  std::optional<uint64_t> steward_rate() const {
    return rate_of_steward_ == VirtualQueue::kUnlimited || now_() >= valid_until_ ? std::nullopt
                                                                                  : std::optional(rate_of_steward_);
  }
  // The time at which the slice that was refused last may leave; nothing if a slice was admitted since.
  std::optional<Time> opens_at() const { return opens_at_; }
  // The part of the elements that this rank sends in the call that has left: 0 to 1.
  double done(uint64_t number) const;

 private:
  struct CallState {
    double busiest_bytes = 0;
    uint64_t most = VirtualQueue::kUnlimited;
    uint64_t elements = 0, sent = 0;  // all that this rank sends; known with the first slice
  };
  void go_at(uint64_t rate, Time now);

  const std::function<Time()> now_;
  VirtualQueue queue_{VirtualQueue::kUnlimited, kLeastBurst};
  uint64_t rate_of_steward_ = VirtualQueue::kUnlimited;
  Time valid_until_{0};
  std::map<uint64_t, CallState> calls_;  // by number
  std::optional<Time> opens_at_;
};

}  // namespace banyan::service
