// Low trees of one root: the root deals its data out to hubs, and these spread it as in an allgather.
//
// A packing of one root's trees that is grown tree after tree is tall: the first tree takes what it likes of every arc,
// and where a rank can send no more than the rate of the broadcast, as on a star, one tree can only be a chain. So the
// trees are cut into as many parts as there are hubs. Each part goes from the root to its hub and from there on along
// the hub's own tree of an allgather; where the path to the hub has passed a rank already, the allgather's edge to it
// is left out. The trees of an allgather are low, and symmetric fabrics have them at no cost (rotation.h).
//
// With K units owed by root r, hubs H and w = K / |H|, the allgather gives w units to every terminal; the trees of
// terminals that are no hubs are dropped, and the paths to the hubs are a flow of w units to each through what is then
// left. Nothing promises that this flow exists: then there is no packing of this kind, or not with these hubs. If it
// exists, the result is exact, for it stays within the capacities and reaches every terminal K times.
//
// If the number of trees is given, no unit may be cut: hubs then get whole units, and some perhaps none.
//
// A tree of an allgather may pass the root, which now has no capacity for that; what hung below the root there grows
// anew (tree_grower.h), perhaps higher. So once all trees stand they are grown again under a limit below the height of
// the tallest, until that fails or they are as low as a path of a hop or two and the allgather's trees.
//
// Choice of hubs. A tree crosses a cut that has nothing to spare only once, so a hub on the root's side of it could not
// spread to the other side by itself. Hubs are therefore the terminals beyond the tight cut that lies nearest to the
// root: on boxes whose NICs bind, those outside the root's box; on a star, all but the root.
#pragma once

#include <optional>

#include "banyan/plan/forest/one_root.h"

namespace banyan::plan {

std::optional<OneRootPacking> pack_over_hubs(const OneRoot& problem);

}  // namespace banyan::plan
