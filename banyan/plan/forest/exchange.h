// Low trees of one root on a network without switches, by exchanging the arcs over which they come to a vertex.
//
// On a torus or a hypercube every arc into every vertex is needed: K trees come to a vertex over K units of arcs. So
// the only choice is, for every vertex, which tree comes over which unit; and exchanges at one vertex between two
// trees, or of a tree and a unit that nobody uses, lead from any assignment to any other without ever overloading an
// arc. But an exchange can cut vertices off: a tree may be left in pieces that do not hang together with the root.
//
// One step of the search is simulated annealing (Kirkpatrick et al. 1983) towards a height, the aim: the cost of a
// vertex in a tree is how much deeper than the aim it is, and a fixed price where it is cut off; vertices on the way to
// one that costs something are tried first. It ends when nothing costs anything: then every tree spans, no deeper than
// the aim, and the assignment is its own proof.
//
// The search begins with trees that grow side by side, level by level. It aims at twice the least height (at four or
// eight times where that fails), then, from where that ended, one level lower at a time: each step has little left to
// mend, which takes far less than aiming at the least height at once. If it gets stuck near the least height and the
// network is not large, it begins anew from the grown trees; on a small network it then goes on from a high
// temperature. The least height counts one more than the hops from the root where there are several trees. Work is
// counted, not timed, and the seed is fixed: same input, same trees.
#pragma once

#include <optional>

#include "banyan/plan/forest/one_root.h"

namespace banyan::plan {

// Trees of one unit each. Nothing when the network has switches, has too many trees or links for this search, or when
// the search ends without trees.
std::optional<Packing> pack_by_exchange(const OneRoot& problem);

}  // namespace banyan::plan
