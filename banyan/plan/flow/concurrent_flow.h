// The maximum concurrent flow of a network: all demands at once, as fast as the links allow.
//
// Wanted is the largest f such that every terminal s ships f * D(s,t) to every t, all at the same time, along any
// paths, within the bandwidths. Terminals and switches forward. We speak of the load 1/f: the seconds that one unit of
// each demand takes, with bandwidths as the network counts them. No paths have a smaller load than `bound`.
//
// Two methods:
//   1. a linear program (exact_flow.h), where it is small, as up to about 32 ranks, or where symmetries make it so;
//   2. else weights that grow with the loads (path_balance.h), until the paths are within `gap` of what the weights
//      prove, or no rounds are left.
// Both say what they have proved. No clock, no random numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"
#include "banyan/plan/flow/demand.h"
#include "banyan/plan/flow/path_flows.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct ConcurrentFlow {
  PathFlows paths = {};
  std::vector<uint64_t> lengths = {};  // by arc; they prove the bound (arc_lengths.h)
  Fraction bound = {};                 // the least load that any flow can have, as far as is known
  Fraction load = {};                  // that of the paths

  double gap() const { return (load / bound).to_double() - 1; }
};

struct FlowOptions {
  double gap = 0.01;           // good enough; a linear program does better
  int128 divisor = 1;          // by which the bound will be divided: lengths are chosen so that it still fits
  uint32_t most_rounds = 600;  // of balancing paths
};

// `network` is of this fabric, not reversed. Throws Error{invalid_input} where something is to be shipped between
// participants that reach each other through ranks only that do not take part, and Error{unsupported} for more than
// kMostPairs pairs.
constexpr uint64_t kMostPairs = uint64_t{1} << 22;
ConcurrentFlow solve_concurrent_flow(const Network& network, const Fabric& fabric, const Demand& demand,
                                     const FlowOptions& options = {});

}  // namespace banyan::plan
