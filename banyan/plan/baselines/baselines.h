// The schedules people run today, on the same IR, to compare the forest with.
//
// Each is planned on the fabric as it is: consecutive partners are joined by the shortest route through switches (ties
// to the widest, then by link number), never through another rank. If two partners have no such route, the algorithm
// cannot run on this fabric and the planner says so; it does not pretend.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan::plan {

enum class Baseline : uint8_t {
  ring,                // one ring through all participants
  bidirectional_ring,  // half of every shard each way round
  binary_tree,         // one balanced binary tree per root
  double_binary_tree,  // two, whose leaves are the other's inner nodes (Sanders, Speck, Träff 2009)
  recursive_doubling,  // hypercube exchange for allgather, recursive halving for reduce-scatter; N a power of two
  hierarchical_ring,   // a ring of boxes, and a ring inside each box
  nccl_rings,          // several rings, as NCCL builds them (library_rings.h)
};

std::string_view to_string(Baseline baseline);

// Every result passes the verifier. Throws Error{unsupported} with the reason when the algorithm does not exist for
// this fabric or number of ranks ("no route from gpu3 to gpu7 without passing through a rank").
Schedule plan_baseline(Baseline baseline, const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan
