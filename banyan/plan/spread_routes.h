// Spreading: the trees of a schedule over all ways that are as short.
//
// Planners of rings and trees send each edge by the first of the best ways (fabric/routing.h), so all that goes from
// one rack to another crosses the same spine, of this communicator and of every other. spread_routes() keeps the trees
// and gives each edge of each chunk the way that suits the loads of links (route_assignment.h): in an allreduce by a
// ring of n ranks each edge carries 2 (n - 1) chunks, which two spines carry evenly. Where the bandwidths of the fabric
// say what other tenants leave of each link, that is their flow assignment, too.
//
// A schedule stays as it is where the loads of links would not become less, as in forests, which divide themselves;
// where its edges are tied to travel as one message; and where it has more than kMostEdges of them.
//
// O(edges * ways * length of a way), what route_assignment.h takes, and a search over the switches for each pair of
// ranks that has an edge.
#pragma once

#include <cstddef>

#include "banyan/schedule/schedule.h"

namespace banyan::plan {

constexpr size_t kMostEdges = 20'000;
constexpr size_t kMostWays = 16;  // of an edge; the first ones, by the order of links

// The result is for the same fabric and collective, has the same chunks, and passes the verifier if `schedule` does.
Schedule spread_routes(Schedule schedule);

}  // namespace banyan::plan
