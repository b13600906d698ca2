// Spreading: the trees of a schedule over all paths that are as short.
//
// Planners of rings and trees send each edge by the first of the best paths (fabric/routing.h), so all that goes from
// one rack to another crosses the same spine, of this communicator and of every other. spread_routes() keeps the trees
// and divides each chunk into equal *channels*; what a rank sends to another in one channel takes one path, which suits
// the loads of links (route_assignment.h). So a ring with two channels crosses two spines alike at every moment; chunks
// that take different paths would not do that, since a ring sends one after the other. There are as many channels as it
// takes for the least loads, at most kMostChannels. If the bandwidths of the fabric say what other tenants leave of
// each link, this is also the flow assignment among tenants.
//
// A schedule stays as it is where the loads of links would not become less, as in forests, which divide themselves;
// where its edges are tied to travel as one message; and where it has more than kMostEdges of them. For small buffers
// it is of no use: each channel has messages of its own.
//
// O(edges * channels), what route_assignment.h takes for the pairs of ranks that have an edge, and a search over the
// switches for each of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "banyan/schedule/schedule.h"

namespace banyan::plan {

constexpr size_t kMostEdges = 20'000;
constexpr size_t kMostPaths = 16;  // of an edge; the first ones, by the order of links
constexpr uint32_t kMostChannels = 4;

// The result is for the same fabric and collective, and passes the verifier if `schedule` does.
Schedule spread_routes(Schedule schedule);

}  // namespace banyan::plan
