// LaneDelay: whether what a lane sends stands in the network, in the queue of a switch before a link that is too slow.
//
// Bytes of small calls wait nowhere else: the kernel of the sender gives all of them away at once. What shows is the
// time until they are acknowledged. It is compared with what a link that is well would need: the least round trip of
// some minutes, and the time to send what is under way at the rate that the lane should have. By Little's law, bytes
// under way are the bytes that have arrived in the time in which any were under way, times the round trip.
//
// What must not be taken for a slow link:
//   - An acknowledgement that the receiver puts off, by 40 ms and more. It holds back one packet or two. So bytes have
//     to arrive between any two looks, unless kManyPackets are under way.
//   - Hosts that are busy: threads and packets wait there, too, now and then. So the least round trip of kLooks counts,
//     and it must not be far from the mean. Where daemons always wait for a core, view/slow_links.h knows it.
//   - Very small messages, of which nobody knows what their round trip is made of.
//
// One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "banyan/run/transport/channel_transport.h"

namespace banyan::service {

class LaneDelay {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr size_t kLooks = 10;
  static constexpr double kDelayed = 3;           // times what a link needs that is well
  static constexpr double kSteady = 0.5;          // the least round trip, of the mean
  static constexpr double kLeastBusy = 0.5;       // part of the time
  static constexpr double kLeastUnderWay = 1000;  // bytes
  static constexpr uint32_t kManyPackets = 3;

  // So long after the look before.
  void look(const run::LaneLoad& load, Time passed);
  // By the last kLooks. `most`: bytes per second that the lane should carry. O(kLooks).
  bool is_delayed(double most) const;
  // Of these.
  Time least_round_trip() const;

 private:
  struct Look {
    double seconds = 0, bytes = 0, busy = 0, round_trip = 0;
    bool may_be_put_off = false;  // the acknowledgement
  };
  run::LaneLoad last_;
  std::array<Look, kLooks> looks_ = {};
  size_t count_ = 0;  // of all
};

}  // namespace banyan::service
