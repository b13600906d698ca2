// The last resort under a height limit: one tree for each root along shortest paths, as low as any.
//
// The packer under a height limit is a guess (packing.h) and may find nothing, however much time links are given. These
// trees always exist. Each tree takes those paths of fewest hops between terminals whose links are loaded least so far,
// so that roots do not all use the same.
#pragma once

#include <cstdint>
#include <span>

#include "banyan/base/fraction.h"
#include "banyan/plan/forest/packing.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct BreadthFirstTrees {
  Packing packing;
  Fraction time;  // of the busiest arc: units over bandwidth, as capacities count it (capacities.h)
};

// `supply` by terminal. Every terminal must be reached from every root. O(m log m) for each root.
BreadthFirstTrees breadth_first_trees(const Network& network, std::span<const int64_t> supply);

}  // namespace banyan::plan
