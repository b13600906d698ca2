// The least worst load that any topology can have for a demand: an exact fraction that nothing beats, whatever its
// links and however traffic is routed, over more than two hops, too.
//
// Let a topology serve the demand with a worst load of u (in units as in threshold_routing.h). A link carries u at most
// (times B), so d_ij <= min(t_ij, u x_ij) of the traffic from i to j goes direct, and the rest takes two hops or more:
// every unit of it enters some endpoint that it is not for. With D ports, endpoint k can send and receive u D each, and
// its own traffic takes max(row_k, column_k) of that. So
//
//   sum of t_ij  -  the most direct traffic at u  +  far   <=   sum over k of (u D - max(row_k, column_k))
//
// and each summand at the right is at least 0. Here `far` is what goes over more than two hops, times the hops beyond
// two: an endpoint has D others at most one hop away, D^2 (for cables: D (D - 1)) two, and so on. The most direct
// traffic at u is that of the best counts x with rows and columns of at most D: a transportation problem with gains
// that shrink with each link, solved by CLP. Its duals, made whole numbers, prove an upper limit of it in integers
// (weak duality), whatever CLP did: where even the limit is too little, no topology has a worst load of u. For cables
// the gains of both directions of a pair are taken together.
//
// u is looked for on a grid of 1/4096 of max over k of max(row_k, column_k) / D, the bound without looking at links.
// With Hops::direct_only the answer is exact: the least worst load of links alone, found by giving one link after the
// other to the pair that is loaded most.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/base/units.h"
#include "banyan/design/demand.h"
#include "banyan/design/port_rounding.h"

namespace banyan::design {

struct TopologyBound {
  Fraction least;              // seconds, or utilisation; of the first matrix that needs most
  std::vector<double> shares;  // the links that carry most traffic directly at a load of `least`; a start for searches
};

// For demands as written: where they are uncertain, the worst of the set can only be worse. Throws Error{unsupported}
// where a linear program cannot be solved. `works_on` is called now and then; what it throws comes out.
TopologyBound bound_topology(const DemandSet& demands, Bandwidth bandwidth, const Ports& ports,
                             const std::function<void()>& works_on = {});

// The best topology without second hops, and its worst load over all demands of the set.
struct DirectTopology {
  Fraction worst;
  std::vector<uint32_t> links;  // rest ports are free
};
// Throws Error{invalid_input} that names an endpoint with more partners than ports.
DirectTopology best_direct_topology(const DemandSet& demands, Bandwidth bandwidth, const Ports& ports);

}  // namespace banyan::design
