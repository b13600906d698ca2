// ChannelTransport: a transport with several streams between two ranks, opened when they are first used.
//
// Lane l with rank p is stream `channel(p, l)`; of lane 0, that is p. A lane may run along its own path of links.
// Implementations: lane_transport.h (TCP), ucx_transport.h. One thread, but for wake().
#pragma once

#include "banyan/run/transport/transport.h"

namespace banyan {

class ChannelTransport : public Transport {
 public:
  virtual uint32_t channel(uint32_t peer, uint32_t lane) const = 0;
  // Sends on this stream no faster than so many bytes per second from now on; 0: as fast as it goes. A transport that
  // cannot, does not.
  virtual void pace(uint32_t channel, uint64_t bytes_per_second) = 0;
  // Ends a wait(), or keeps the next one from waiting. Any thread.
  virtual void wake() = 0;
};

}  // namespace banyan
