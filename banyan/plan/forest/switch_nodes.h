// Trees that span switches, cut down to what participants need of them.
//
// Every tree of a packing spans each switch that is a terminal of the network (graph/network.h), needed or not; and
// trees that were grown otherwise may pass a switch (steiner_tree.h). Here a switch without children is cut off, with
// the path that leads to it; one with a single child becomes a part of the path through it; and a path that passes a
// vertex twice is cut short. The trees that remain branch at switches only where that is of use, and load every arc at
// most as much.
#pragma once

#include "banyan/plan/forest/packing.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// Trees of a root that become the same are one. Heights count participants alone: a switch adds no message of its own.
// O(arcs of all trees * log).
Packing without_idle_switches(const Network& network, const Packing& packing);

}  // namespace banyan::plan
