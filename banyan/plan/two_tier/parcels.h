// Parcels: the bytes of one pair of boxes as they travel by a TwoTierPlan, stage by stage: who has them, which GPU
// sends them, to which GPU they belong. It walks the queues that two_tier.h defines.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/plan/two_tier/two_tier.h"

namespace banyan::plan {

// GPUs are numbered in their box. GPU `via` of the sending box sends to GPU `via` of the receiving one.
struct Parcel {
  uint64_t bytes = 0;
  uint32_t stage = 0;  // TwoTierPlan::stage_count() for the rest
  uint16_t source = 0, via = 0;
  uint16_t target = 0;
};

// The parcels of box `from` for box `to`, by stage, GPU `via` and place in its queue. `bytes` is the matrix that the
// plan was made for. Complexity O(G^2 + moves + parcels), and the stages of all boxes once.
std::vector<Parcel> parcels_of(const TwoTierPlan& plan, std::span<const uint64_t> bytes, uint32_t from, uint32_t to);

}  // namespace banyan::plan
