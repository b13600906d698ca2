// The throughput of the best trees that may branch at switches, by a linear program with a column for every tree that
// matters.
//
// An oracle for plan/forest/priced_trees.h and for packings that span switches, with which it shares no code: columns
// are priced exactly, by the least tree over all sets of participants (Dreyfus and Wagner 1971), where a tree may
// branch at participants, in-trees at switches that reduce and out-trees at switches that multicast.
#pragma once

#include "banyan/fabric/fabric.h"
#include "banyan/schedule/collective.h"

namespace banyan::testing {

// Bytes per second, in floating point; of an allreduce, or of what only spreads or only gathers. For up to 8
// participants: O(3^participants * nodes) for a tree.
double best_trees_throughput(const Fabric& fabric, const Collective& collective);

}  // namespace banyan::testing
