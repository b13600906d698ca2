// The throughput of the best trees of one direction, by a linear program that writes every flow out.
//
// An oracle for plan/bound/balanced_links.h, with which it shares no code: no cuts, but for every rank one flow that
// brings it all that others root within what the links carry for trees, and at switches what is carried is balanced.
#pragma once

#include "banyan/fabric/fabric.h"
#include "banyan/schedule/collective.h"

namespace banyan::testing {

// Bytes per second of the whole buffer, in floating point. Of an allgather, broadcast, reduce-scatter or reduce; for
// small fabrics: columns are links times ranks. `balanced`: whether switches must give out what they take in.
double tree_throughput(const Fabric& fabric, const Collective& collective, bool balanced = true);

}  // namespace banyan::testing
