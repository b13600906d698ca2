// The last resort of packing: one tree grown with a check of the cut condition at every step. It cannot fail.
//
// The argument. If the cut condition holds and every switch gives out what it takes in, switches can be split off one
// pair of arcs at a time without breaking it: for each arc x -> w into a switch there is an arc w -> t so that one unit
// of both can become one unit x -> t (Bang-Jensen, Frank, Jackson 1995). In a graph without switches some arc from a
// member of the tree to a terminal outside can join the tree (Bérczi, Frank 2010). Only arcs out of members matter for
// that, so only these are split: each is led on through the switches until it ends at a terminal, and joins if the
// condition still holds. An arc that may not join once all are split could not have joined before, and the other way
// round: splitting only ever lowers what cuts can take. So if no led arc joined, none of the fully split graph could.
//
// Cost: a check (a flow per terminal) for every pair of arcs that is tried, so up to members * degree^2 checks an edge.
// That is why whole trees are guessed first (packing.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct SureTree {
  int64_t units = 0;  // as many as the steps allowed, at least 1
  uint32_t height = 0;
  std::vector<std::vector<uint32_t>> paths;  // one per edge, arcs of the network, parents before children
  uint64_t checks = 0;                       // of the cut condition
};

// `left` by arc and `supply` by terminal satisfy the cut condition, switches are balanced, supply[root] > 0. The
// capacity that is left and the trees that are owed after this tree satisfy the condition again.
SureTree grow_surely(const Network& network, std::span<const int64_t> left, std::span<const int64_t> supply,
                     uint32_t root);

}  // namespace banyan::plan
