// Low trees of one root on a network without switches, by exchanging the arcs over which they come to a vertex.
//
// On a torus or a hypercube every arc into every vertex is needed: K trees come to a vertex over K units of arcs. So
// the only choice is, for every vertex, which tree comes over which unit; and exchanges at one vertex between two
// trees, or of a tree and a unit that nobody uses, lead from any assignment to any other without ever overloading an
// arc. But an exchange can cut vertices off: a tree may be left in pieces that do not hang together with the root.
//
// The search starts from trees that grow side by side, level by level, and is simulated annealing (Kirkpatrick et al.
// 1983): the cost of a vertex in a tree is how much deeper than the aim it is, and a fixed price where it is cut off;
// vertices on the way to one that costs something are tried first. It ends when nothing costs anything: then every tree
// spans, no deeper than the aim, and the assignment is its own proof. Work is counted, not timed, and the seed is
// fixed: same input, same trees.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "banyan/plan/network.h"
#include "banyan/plan/packing.h"

namespace banyan::plan {

// `supply` trees of one unit each from `root`, within `capacity`; as low as found. Nothing when the network has
// switches, has too many trees or links for this search, or when the search ends without trees.
std::optional<Packing> pack_by_exchange(const Network& network, std::span<const int64_t> capacity, uint32_t root,
                                        int64_t supply);

}  // namespace banyan::plan
