// Low trees of one root on fabrics that fall into parts: one part at a time.
//
// Let a cut part the root's side, near, from the rest, far, and have no more capacity than the K units that the root
// owes. Then every tree crosses it exactly once, and a tree is three things: a tree of the root's over the near side,
// an arc across, and a tree of some terminal of the far side over the far side. They do not share arcs, and any near
// tree fits any far tree as long as it leads to the arc between them. So
//
//   1. a flow of K units leads from the root over the cut to the terminals of the far side, in equal parts if it can;
//      the way of a unit, from its last near terminal on, is the crossing, and where it ends is the root of a far tree;
//   2. the far trees are packed, many roots, in what the crossings leave (packing.h);
//   3. the near trees are packed, one root and a smaller network (one_root.h again);
//   4. near trees are dealt to the near terminals at which crossings begin, so that these stand as near to the root as
//      possible, and far trees to the crossings that end at their roots, in any order. Crossings whose first arcs lead
//      to one vertex may go on in each other's stead: there the deepest start goes on with the lowest rest.
//
// The root alone is a near side, too: then the cut need not be tight, and what the root could send beyond K is lost.
// Nothing promises that the flow of step 1 leaves enough to steps 2 and 3. If it does not, there is no result.
#pragma once

#include <optional>

#include "banyan/plan/forest/one_root.h"

namespace banyan::plan {

std::optional<OneRootPacking> pack_across_cut(const OneRoot& problem);

}  // namespace banyan::plan
