// LaneDelay: whether the bytes of a lane stand in the network, in the queue of a switch before a link that is too slow.
//
// Bytes of small calls wait nowhere else: the sender's kernel passes all of them to the network at once. Only the time
// until their acknowledgement shows the wait. It is compared with the time that a healthy link would need: the least
// round trip of some minutes, and the time to send the bytes under way at the rate that the lane should have. The bytes
// under way follow from Little's law: the bytes that have arrived, over the time in which any were under way, times the
// mean round trip.
//
// Three things must not be taken for a slow link:
//   - An acknowledgement that the receiver puts off, by 40 ms and more. It holds back one packet or two. So bytes have
//     to arrive between any two looks, unless kManyPackets are under way.
//   - Hosts that are busy: threads and packets wait there, too, now and then. So the least round trip of kLooks counts,
//     and it must not be far from the mean. Hosts whose daemons always wait for a core are left to view/slow_links.h.
//   - Very small messages: nobody knows what their round trip is made of.
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

  // `passed`: since the look before.
  void look(const run::LaneLoad& load, Time passed);
  // Judges by the last kLooks looks. `most`: bytes per second that the lane should carry. O(kLooks).
  bool is_delayed(double most) const;
  // The least round trip of these looks.
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
