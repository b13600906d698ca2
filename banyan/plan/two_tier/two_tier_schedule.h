// An all-to-all as a TwoTierPlan carries it out, on a fabric: a Schedule, whose chunks are paths
//   source -> GPU i of its box (balance) -> GPU i of the other box (stage) -> target (redistribution)
// of which hops that lead nowhere are left out; bytes that stay in a box go straight.
//
// Boxes are those of fabric/boxes.h, GPUs their participants by number. Hops take the first of the best routes through
// switches. The hops of chunks of stage k, from 0, are tied to steps k+1, k+2 and k+3: what a GPU sends to another in
// one step may travel as one message, and balance and redistribution run beside the stages before and after. Bytes that
// stay in a box are not tied.
//
// The traffic is multiplied by the GPUs of a box, so that the balance is exact: every GPU sends the same. Stages are
// not cut into pieces, since an executor of a schedule moves slices of chunks.
//
// Throws Error{unsupported}: another kind than all-to-all, one box only, boxes of unequal numbers of participants, more
// ranks or traffic than TwoTierPlanner has plans for, no route without passing through a rank.
// Complexity: TwoTierPlanner's, and O(parcels) chunks (parcels.h).
#pragma once

#include "banyan/schedule/schedule.h"

namespace banyan::plan {

Schedule two_tier_schedule(const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan
