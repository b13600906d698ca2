// The time of a TwoTierPlan, and the least time of any plan, in a simple model of two tiers.
//
// Model. Bytes and bytes per second; no cost per message. A box is a crossbar: a GPU sends and receives inside its box
// at `inside` in each direction, so work in which no GPU sends or receives more than m bytes takes m / inside (a
// bipartite graph can be coloured with as many colours as its largest degree). A NIC sends and receives at `between`;
// the network between the boxes is not the bottleneck. NICs and in-box links do not slow each other down.
//
// A plan of K stages takes K + 2 steps, all boxes together:
//   step 0        balance for stage 1
//   step k        stage k between the boxes: the largest number of bytes of a GPU / between. Meanwhile inside the
//                 boxes: balance for stage k+1 and redistribution of stage k-1, as one piece of work
//   step K + 1    redistribution of stage K
// A step ends when all of it has. Each step also takes the largest part of the bytes that stay in their box, the same
// of every pair of GPUs, that does not make it longer; the rest of them follows at the end. Balance for a stage is what
// that stage sends of bytes that moved (two_tier.h); the rest of a plan, if any, is its last stage.
#pragma once

#include <cstdint>
#include <span>

#include "banyan/base/units.h"
#include "banyan/plan/two_tier/two_tier.h"

namespace banyan::plan {

struct TwoTierRates {
  Bandwidth inside, between;  // of a GPU, in each direction; not zero
};

struct TwoTierTime {
  double seconds = 0;
  double network = 0;       // the sum of the stages alone
  double first = 0;         // the balance before the first stage
  double last = 0;          // the redistribution after the last one
  double waits_inside = 0;  // by how much steps are longer than their stages
  double stays_inside = 0;  // for bytes that stay in their box and found no room beside the stages
};

// `bytes` is the matrix that the plan was made for. O(parcels).
TwoTierTime two_tier_time(const TwoTierPlan& plan, std::span<const uint64_t> bytes, TwoTierRates rates);

// No schedule is quicker in this model: the largest of
//   what a box sends to or receives from others / (G * between),
//   what a GPU sends to or receives from others of its box / inside,
//   all that a GPU sends or receives / (inside + between).
double fluid_bound(TwoTierShape shape, std::span<const uint64_t> bytes, TwoTierRates rates);

}  // namespace banyan::plan
