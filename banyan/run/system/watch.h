// Watch: decides when waiting for a peer ends without success.
#pragma once

#include <cstdint>

namespace banyan::run {

class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;
  // Called now and then while this rank waits for `rank`, after nothing has moved for a while. Throws the Error with
  // which the operation is to end: the peer died, the time is over, the communicator was aborted.
  virtual void waiting_for(uint32_t rank) = 0;
  // Called when a wait that waiting_for() told of ends, or goes on after a sleep: nothing had moved until just now.
  virtual void woke() {}
};

}  // namespace banyan::run
