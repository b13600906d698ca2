// The order in which a ring passes the participants, and how they fall into boxes.
//
// A ring is as fast as its slowest hop, and on a fabric of several boxes it must enter each box once. So the order is
// the first of these that is a ring, every hop having a route through switches only:
//   1. box by box (fabric/boxes.h), inside a box in an order whose hops stay inside it;
//   2. the participants' order, if all its hops are as wide as the fattest ring could have them: joining_bandwidth;
//   3. a ring of such hops found by search;  4. the participants' order;  5. any ring found by search.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "banyan/fabric/routing.h"
#include "banyan/schedule/collective.h"

namespace banyan::plan {

// The result of a search over orders.
struct OrderSearch {
  std::vector<uint32_t> order = {};  // empty when nothing was found
  bool exhausted = false;            // nothing was found because there is none
};

struct OrderQuestion {
  std::vector<std::vector<uint32_t>> successors;  // by place: where one may go from there
  bool closed = true;                             // a ring through all places; else a path from place 0
};

// A Hamiltonian cycle or path by depth-first search that first tries the place with the fewest ways on (Warnsdorff),
// and, where every hop can be made both ways, by rotations of a path (Pósa 1976). Both are bounded, by some 10^7
// elementary steps; so a ring may exist and not be found. Deterministic.
OrderSearch find_order(const OrderQuestion& question);

// Participants' numbers in the order of a ring. Throws Error{unsupported} naming a hop without a route, or saying that
// no ring exists or was found.
std::vector<uint32_t> ring_order(fabric::Routing& routes, const Fabric& fabric, const Collective& collective);

// For broadcast and reduce on a fabric without a ring: a path from the root, or into it for reduce. Empty when not
// found.
std::vector<uint32_t> path_order(fabric::Routing& routes, const Collective& collective);

// Participants' numbers by box, each box in the order of its ring; boxes by first participant.
std::vector<std::vector<uint32_t>> box_orders(fabric::Routing& routes, const Fabric& fabric,
                                              const Collective& collective);

}  // namespace banyan::plan
