// ChannelTransport: a transport with several streams between two ranks, opened when they are first used.
//
// Lane l with rank p is stream `channel(p, l)`; of lane 0, that is p. A lane may run along its own path of links.
// Implementations: lane_transport.h (TCP), ucx_transport.h. One thread, but for wake().
#pragma once

#include <chrono>
#include <vector>

#include "banyan/run/transport/transport.h"

namespace banyan::run {

// How a lane that has a path of its own does.
struct LaneHealth {
  uint32_t peer = 0, lane = 0;
  // What was sent has not arrived for long, or the connection could not be made in time, although the process at the
  // other end may be well.
  bool is_lost = false;
  std::chrono::milliseconds silent{0};  // since the other end was last heard of
};

class ChannelTransport : public Transport {
 public:
  virtual uint32_t channel(uint32_t peer, uint32_t lane) const = 0;
  // Ends a wait(), or keeps the next one from waiting. Any thread.
  virtual void wake() = 0;
  // Whether has_unsent() of any stream, but for those of one lane, which may wait for long until their peers read.
  virtual bool has_unsent_beside(uint32_t /*lane*/) { return false; }

  // For transports whose lanes have paths. Others do without.

  // Sends on this stream no faster than so many bytes per second from now on; 0: as fast as it goes.
  virtual void pace(uint32_t /*channel*/, uint64_t /*bytes_per_second*/) {}
  // Of the lanes in use.
  virtual std::vector<LaneHealth> health() { return {}; }
  // Closes a stream for good, with what is on its way.
  virtual void drop(uint32_t /*channel*/) {}
};

}  // namespace banyan::run
