// SliceGate: decides when a slice may leave. A pacer holds slices back that would only fill the queues of the network,
// or that belong to a tenant who has had his share.
#pragma once

#include <cstdint>

#include "banyan/run/engine/rank_plan.h"

namespace banyan::run {

// A slice that is ready to be sent, and the next of its execution on this channel.
struct SliceOffer {
  uint64_t sequence = 0;  // of the execution
  const RankPlan* plan = nullptr;
  uint32_t channel = 0, peer = 0, lane = 0;  // lane of the plan
  uint64_t elements = 0;                     // of the elements_sent() of its plan
};

class SliceGate {
 public:
  SliceGate() = default;
  SliceGate(const SliceGate&) = delete;
  SliceGate& operator=(const SliceGate&) = delete;
  virtual ~SliceGate() = default;

  // True if the slice may leave now, and then it does. A refused one is offered again in every step, and every other
  // slice on its channel waits behind it; credits do not. Each slice must be let through at some time, and the engine's
  // owner must see to a step then.
  virtual bool admit(const SliceOffer& offer) = 0;
};

}  // namespace banyan::run
