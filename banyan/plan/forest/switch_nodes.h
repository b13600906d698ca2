// Trees that span switches, cut down to what participants need of them.
//
// Where a switch is a terminal of the network (graph/network.h), every tree of a packing spans it, needed or not; and
// trees that were grown otherwise may pass one (steiner_tree.h). Here a switch without children is cut off, with the
// path that leads to it; one with a single child becomes a part of the path through it; and a path that passes a vertex
// twice is cut short. What is left branches at switches only where that is of use, and loads every arc at most as much.
#pragma once

#include "banyan/plan/forest/packing.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// Trees of a root that become the same are one. Heights count participants alone: a switch adds no message of its own.
// O(arcs of all trees * log).
Packing without_idle_switches(const Network& network, const Packing& packing);

}  // namespace banyan::plan
