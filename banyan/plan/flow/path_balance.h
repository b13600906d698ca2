// Balancing paths: the concurrent flow of large networks, to within a gap that is known.
//
// The method minimises a soft maximum of the loads, the sum of their p-th powers, for p = 9, 13, 17, 25, ... one after
// the other: the larger p, the nearer its least value is to the least greatest load. The derivative by the flow on an
// arc, load^(p-1) / bandwidth, is the arc's length (the exponential lengths of Shahrokhi and Matula 1990, in another
// form: powers are the same on every machine). In every round, source by source, the shortest path to each target joins
// the paths of that pair, and what goes along longer ones is shifted to the shortest, by as much as Newton's method
// says (gradient projection over paths: Bertsekas and Gallager, Data Networks, section 5.7). The lengths at the
// beginning of a round prove a bound (arc_lengths.h), and so does their average over the last rounds: the gap is known
// at its end.
//
// Constant lengths are added that become smaller with every power, so that the shortest of paths that are about as good
// is taken; and at first no path may have many more arcs than the shortest. Deterministic: no clock, no random numbers,
// nothing of libm. A round costs O(sources * arcs log vertices + arcs of all paths). Memory: some 50 bytes a path and 4
// for each of its arcs.
#pragma once

#include "banyan/plan/flow/concurrent_flow.h"

namespace banyan::plan {

// A path must join every pair with demand.
ConcurrentFlow balance_paths(const Network& network, const Demand& demand, const FlowOptions& options);

}  // namespace banyan::plan
