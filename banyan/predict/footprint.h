// Footprint: what a collective of one group puts on the links of a fabric, and how long it takes besides.
//
// A job's collectives are fluid: all bytes of one move together, in proportion, like one flow that crosses every link
// that the collective uses. That is what a pipelined execution with small slices converges to, and it costs one fluid
// event instead of one for every message. What the messages cost is `latency`, before the first byte.
//
// Footprints are made by a CollectivePlans: of rings as collective libraries make them (RingPlans), or of schedules.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/boxes.h"
#include "banyan/fabric/routing.h"
#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/predict/job/job.h"
#include "banyan/schedule/schedule.h"

namespace banyan {

struct CollectiveCall {
  JobCollective kind = JobCollective::all_reduce;
  std::span<const NodeId> members;  // in the order of the group
  uint32_t root = 0;                // its place among them
  uint64_t bytes = 0;               // total, as in job.h
};

struct Footprint {
  Picoseconds latency{0};
  double efficiency = 1;       // of the rate that its busiest link would allow it; above 0
  std::vector<FluidHop> hops;  // by link of the fabric: bytes there; by ascending link
};

// Deterministic; may keep what it has found. One thread.
class CollectivePlans {
 public:
  virtual ~CollectivePlans() = default;
  // Of at least two members. Throws Error{unsupported} naming why when it cannot be done on this fabric.
  virtual Footprint footprint(const CollectiveCall& call) = 0;
};

// What a step and a byte cost, besides what the links say.
struct RingCosts {
  Picoseconds launch = std::chrono::microseconds(5);        // of a collective, whatever its size
  Picoseconds step_inside = std::chrono::microseconds(1);   // of a message inside a box
  Picoseconds step_between = std::chrono::microseconds(5);  // of one between boxes
  double efficiency_inside = 1, efficiency_between = 1;     // of the busiest link's bandwidth
};

// Rings as collective libraries build them (NCCL, src/graph/rings.cc): in a box from rank to rank; over boxes of L
// members each, L rings that share the bytes, of which ring c enters a box at its member c and leaves it at the next
// one, so that every network card carries one of them each way, and rails stay rails. All-to-all, gather and scatter go
// straight from rank to rank. Small all-reduces, broadcasts and reduces take trees instead, whose steps are the
// logarithm of the boxes, where that is quicker.
std::unique_ptr<CollectivePlans> make_ring_plans(const Fabric& fabric, const RingCosts& costs);

// Of a schedule for the same call: bytes by its trees, and `alpha` with its links' latency for each hop of the highest.
Footprint footprint_of(const Schedule& schedule, uint64_t bytes, Picoseconds alpha);

}  // namespace banyan
