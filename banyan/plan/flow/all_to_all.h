// The flow planner: all-to-all and all-to-allv along paths that are, together, as fast as the fabric allows.
//
// The maximum concurrent flow (concurrent_flow.h) says which paths the shards of each pair take; each path becomes a
// chunk, cut into hops where it passes through a rank. Hop h is tied to step h, so that a rank may send all that goes
// to one neighbour in a step as one message. If the network alone leads from rank to rank, the paths pass through no
// rank, unless that makes them faster.
#pragma once

#include "banyan/plan/flow/link_lengths.h"
#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

struct FlowPlan {
  Schedule schedule;
  LinkLengths lengths;        // they prove the bound
  Fraction bound;             // seconds per byte of M
  Fraction seconds_per_byte;  // by the most loaded link
  bool optimal = false;       // both are equal
  // The bytes for others that pass through the rank that forwards most, as a multiple of M: it may have to hold them.
  Fraction most_forwarded;
};

struct AllToAllOptions {
  double gap = 0.01;  // above the bound; good enough where no linear program is solved
  PlanObserver* observer = nullptr;
};

// The bound alone: what proves it. Takes as long as the plan, and is the same as the plan's for the same gap.
LinkLengths find_link_lengths(const Fabric& fabric, const Collective& collective, const AllToAllOptions& options = {});

// Up to 32 ranks, and on fabrics with symmetries, the bound is exact, and the plan reaches it or is at most 0.1 %
// above, where shares would have too large denominators; otherwise it is within the gap, unless that takes too many
// rounds. Throws what solve_concurrent_flow throws.
FlowPlan plan_all_to_all(const Fabric& fabric, const Collective& collective, const AllToAllOptions& options = {});

}  // namespace banyan::plan
