// Low trees of one root: the root deals its data out to hubs, and these spread it as in an allgather.
//
// A packing of one root's trees that is grown tree after tree is tall: the first tree takes what it likes of every arc,
// and where a rank can send no more than the rate of the broadcast, as on a star, one tree can only be a chain. So the
// trees are cut into as many parts as there are hubs. Each part goes from the root to its hub and from there on along
// the hub's own tree of an allgather; where the way to the hub has passed a rank already, the allgather's edge to it is
// left out. The trees of an allgather are low, and symmetric fabrics have them at no cost (rotation.h).
//
// With K units owed by root r, hubs H and w = K / |H|, the allgather gives w units to every terminal; the trees of
// terminals that are no hubs are dropped, and the ways to the hubs are a flow of w units to each through what is then
// left. Nothing promises that this flow exists: then there is no packing of this kind, or not with these hubs. Where it
// exists the result is exact, for it stays within the capacities and reaches every terminal K times.
//
// Which hubs. A tree crosses a cut without anything to spare once, so a hub on the root's side of it could not spread
// to the other side by itself. Hubs are therefore the terminals beyond the tight cut that lies nearest to the root: on
// boxes whose NICs bind, those outside the root's box; on a star, all but the root.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "banyan/plan/network.h"
#include "banyan/plan/packing.h"

namespace banyan::plan {

struct HubPacking {
  Packing packing;
  int64_t parts = 1;  // into which each unit of capacity and supply was cut
};

// `supply` units of trees rooted at `root` within `capacity`, which satisfies the cut condition; nothing when hubs do
// not lead to any, or when there would be more than `most_units` of supply.
std::optional<HubPacking> pack_over_hubs(const Network& network, const Fabric& fabric,
                                         std::span<const int64_t> capacity, uint32_t root, int64_t supply,
                                         int64_t most_units);

}  // namespace banyan::plan
