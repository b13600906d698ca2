// Balance: one receiver shares out what it must get in one step over its arcs. A breadth-first broadcast consists of
// such problems.
//
// Groups of sources are to be received over parallel arcs. A group may come in over some of them only, in any parts.
// Wanted is the assignment whose most loaded arc, load / capacity, is least. With w(G) the weight of a set of groups
// and c(G) the capacity of all arcs that any of them may use, the answer is
//
//     U = max over sets G of groups of  w(G) / c(G)
//
// by max-flow and min-cut. It is found by Newton's (Dinkelbach's) iteration: a flow for the ratio p/q at hand, with
// supplies q * w and capacities p * c, either carries everything, or its cut is a set with a larger ratio. All numbers
// are integers, so the flow at the end is one, too, in parts of 1/q. A handful of flows in a graph of
// groups + arcs vertices; loads of 128 bits hold weights up to 2^40 and capacities up to 2^80.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"

namespace banyan::plan {

// Sources whose shards may come in over the same arcs.
struct SourceGroup {
  std::vector<uint32_t> arcs;  // their places among the receiver's, ascending; at least one
  int64_t weight = 0;          // > 0
};

struct Balance {
  Fraction load;  // of the most loaded arc: weight per capacity
  // Indexed by group, parallel to its arcs: the weight that comes in over each, in 1/load.denominator() of the unit.
  std::vector<std::vector<int128>> parts;
};

// At least one group; capacities above 0, by place.
Balance balance(std::span<const SourceGroup> groups, std::span<const int64_t> capacity);

}  // namespace banyan::plan
