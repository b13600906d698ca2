// The choice of links for a demand: n endpoints with D optical ports each, and a circuit switch, or a person with
// cables, that can join them in any way. Wanted is the topology with the least worst load under threshold routing.
//
// Problem and routing are those of TROD and its co-design of topology and thresholds (threshold_routing.h has the
// definitions); method and bound are our own:
//
//   1. bound_topology() says what no topology and no routing can beat (topology_bound.h).
//   2. Starts: links in the shape of the demand (rows and columns scaled to D, Sinkhorn), mixed with an even mesh in
//      parts of 0, 1/4, .. 1, rounded by round_links(); those that carry most traffic directly, from the bound's
//      program; the best topology without second hops, where there is one; a random regular one.
//   3. The best starts are improved by exchanges of the ends of two links, accepted as in simulated annealing with a
//      fixed sequence of random numbers, and then downhill only, until no exchange of two links helps (on small ones)
//      or the budget of judgements is spent. The threshold is chosen anew on the way.
//
// Without a second hop (Hops::direct_only) the answer of best_direct_topology() is the best there is. With it, the
// answer is the best one found; `bound` says what at most is left. The same input gives the same answer. No clock is
// read: the budget counts judgements, about 3 * 10^8 steps of them, which is a few seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/base/units.h"
#include "banyan/design/demand.h"
#include "banyan/design/port_rounding.h"
#include "banyan/design/threshold_routing.h"
#include "banyan/fabric/fabric.h"

namespace banyan::design {

struct TopologyRequest {
  static constexpr uint32_t kMaxPorts = 1024;
  uint32_t ports = 0;
  Bandwidth bandwidth;  // of a link, in each direction that it has
  Wiring wiring = Wiring::cables;
  Hops hops = Hops::indirect_too;
};

struct DemandTopology {
  std::vector<uint32_t> links;  // row by row
  double threshold = 0;         // seconds of a link or utilisation, as in threshold_routing.h
  double worst = 0;             // load of the link that is loaded most: seconds, or utilisation
  Fraction bound;               // no topology, and no routing, has a lower worst load
  bool is_best = false;         // proved: the best of all topologies without second hops
};

// Throws Error of check_demands(); Error{invalid_input} where the ports are none or too many, where some endpoint has
// more partners than ports and no second hop is allowed, or where so few ports cannot join all who have demand;
// `works_on` as in bound_topology().
DemandTopology choose_topology(const DemandSet& demands, const TopologyRequest& request,
                               const std::function<void()>& works_on = {});

// A topology that others would have built, under the same routing, with the threshold that is best for it.
struct RivalTopology {
  std::string name;
  double worst = 0, threshold = 0;
  double unreachable = 0;  // part of the traffic that has no way; then the others mean nothing
};
// The even mesh in whole links, the even mesh on average (what a rotor switch gives, which joins all pairs in turn),
// and a random regular topology.
std::vector<RivalTopology> rival_topologies(const DemandSet& demands, const TopologyRequest& request);

// The topology as a fabric, to plan on: endpoints are ranks, parallel links are one link of their sum. Throws
// Error{invalid_input} where links leave parts that nothing joins, which a fabric cannot be.
Fabric topology_fabric(const std::vector<std::string>& names, const std::vector<uint32_t>& links,
                       const TopologyRequest& request);

}  // namespace banyan::design
