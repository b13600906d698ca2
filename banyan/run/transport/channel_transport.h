// ChannelTransport: a transport with several streams between two ranks, opened when they are first used.
//
// Lane l with rank p is channel `channel(p, l)`; of lane 0, that is p. A lane may run along its own path of links.
// Implementations: lane_transport.h (TCP), ucx/transport.h. One thread, but for wake().
//
// It never waits: as an EventSource it says what a thread that has nothing to do may wait for (system/waiter.h).
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "banyan/run/system/event_source.h"
#include "banyan/run/system/waiter.h"
#include "banyan/run/transport/connector.h"
#include "banyan/run/transport/transport.h"

namespace banyan::run {

// Health of a lane over TCP.
struct LaneHealth {
  uint32_t peer = 0, lane = 0;
  // Sent bytes have not arrived for long, or the connection could not be made in time, although the process at the
  // other end may be well.
  bool is_lost = false;
  // Nothing was sent for long, and the other end answers no questions either. It may be that some were lost by chance:
  // no reason to stop calls, but one not to rely on this path when they are stopped.
  bool is_mute = false;
  // The connection was reset, which may not have been its path's fault.
  bool is_broken = false;
  std::chrono::milliseconds silent{0};  // since the other end was last heard of
};

// Load of a lane over TCP, and its progress. Counts are since it was connected.
struct LaneLoad {
  uint32_t peer = 0, lane = 0;
  bool has_more = false;   // bytes wait that the network has not taken yet
  uint32_t under_way = 0;  // packets that are not acknowledged
  uint64_t arrived = 0;    // bytes, with headers
  // The time in which anything was under way, and the part of it in which the receiver had no room.
  std::chrono::microseconds busy{0}, receiver_was_full{0};
  // As in TcpState.
  std::chrono::microseconds round_trip{0}, least_round_trip{0};
  uint64_t rate = 0;  // as in LaneControl::pace()
};

// The power of transports whose lanes have paths of their own.
class LaneControl {
 public:
  // Sends on this channel no faster than so many bytes per second from now on; 0: as fast as it goes.
  virtual void pace(uint32_t channel, uint64_t bytes_per_second) = 0;
  // Packets of all lanes that links carry bear this code point (system/ds_field.h) from now on, also of lanes that come
  // later.
  virtual void mark(uint8_t dscp) = 0;
  // Health of the lanes in use.
  virtual std::vector<LaneHealth> health() = 0;
  // Loads of the lanes in use that links carry; none if the transport does not tell.
  virtual std::vector<LaneLoad> loads() { return {}; }
  // Closes all channels of such lanes for good, with the bytes in flight.
  virtual void drop_if(const std::function<bool(uint32_t lane)>& leaves) = 0;
  // Closing connections resets them from now on: bytes on their way are given up, also by the kernel. Otherwise it
  // would keep for minutes the bytes that a peer does not read.
  virtual void abandon() {}
  // As drop_if(), of one; returns bytes that had come and were not read, also if the connection was reset.
  virtual std::vector<std::byte> drain(uint32_t channel) = 0;
  // Upper bound of the bytes that write() has taken and that are still to reach the host of the peer: its last ones.
  virtual size_t in_flight(uint32_t channel) = 0;
  // True if the connection was reset, or has been given up by the kernel; false if its other end was closed.
  virtual bool was_reset(uint32_t channel) = 0;
  // There is this path to a peer.
  virtual void announce_path(uint32_t peer, const Path& path) = 0;
  // Finds out whether a connection along this path is possible, with a peer of a higher number. Tries as long as for
  // any other connection; tried() tells the result.
  virtual void try_path(uint32_t peer, const Path& path) = 0;
  struct Tried {
    uint32_t peer = 0;
    Path path;
    bool works = false;
  };
  // Trials that have ended since the last call.
  virtual std::vector<Tried> tried() = 0;

 protected:
  ~LaneControl() = default;
};

// Bytes that were handed over for peers, with the headers of the engine.
struct SentBytes {
  uint64_t tcp = 0, shared_memory = 0, ucx = 0;
};

// Bytes that a lane has carried for its communicator, both ways, since it was connected.
struct LaneBytes {
  uint32_t peer = 0, lane = 0;
  uint64_t sent = 0, received = 0;
};

class ChannelTransport : public Transport, public EventSource {
 public:
  virtual uint32_t channel(uint32_t peer, uint32_t lane) const = 0;
  // For a thread that has nothing else to wait for.
  void wait(std::chrono::milliseconds at_most) final { wait_for(*this, at_most); }
  // Ends the sleep of who waits for it, or keeps the next one from beginning. Any thread.
  virtual void wake() = 0;
  // True if has_unsent() holds for any channel, but for lanes that are left out, which may wait for long until their
  // peers read.
  using LaneChoice = bool (*)(uint32_t lane);
  virtual bool has_unsent_but(LaneChoice leaves_out) = 0;
  // Null for transports that choose the paths of their bytes themselves. Lives as long as the transport.
  virtual LaneControl* lane_control() = 0;
  // Since its beginning. Any thread.
  virtual SentBytes sent_bytes() const { return {}; }
  // Bytes of lanes that were ever connected; none if the transport does not tell. Any thread.
  virtual std::vector<LaneBytes> lane_bytes() const { return {}; }
};

}  // namespace banyan::run
