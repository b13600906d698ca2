// The guess for symmetric fabrics: grow the trees of one root and rotate them.
//
// A fabric may declare a group of automorphisms that fixes no rank (Fabric::symmetries). If it acts on the participants
// and their supplies, the ranks fall into orbits of equal size; a tree grown for one rank of an orbit stands for its
// images, one for every other rank, and loads every arc of an arc orbit alike. So only one tree per orbit is grown,
// against the capacity that an arc has left for all images together. A complete packing is its own proof; a guess
// that gets stuck, or comes out tall, is thrown away and pack_trees takes over.
//
// The group is never listed: orbits follow from its generators, and an image of a tree is one generator away from
// another. 1024 ranks of DGX boxes are one orbit: 1023 edges are grown instead of a million.
#pragma once

#include <optional>

#include "banyan/fabric/fabric.h"
#include "banyan/plan/forest/packing.h"

namespace banyan::plan {

// Trees at most `height` high. Nothing when the fabric declares no symmetry, the problem does not share it, or the
// guess fails.
std::optional<Packing> pack_by_rotation(const Network& network, const Fabric& fabric, std::span<const int64_t> capacity,
                                        std::span<const int64_t> supply, uint32_t height);

// The same, at most `height` high or a little higher: a search that takes longer seldom does better.
std::optional<Packing> pack_low_by_rotation(const Network& network, const Fabric& fabric,
                                            std::span<const int64_t> capacity, std::span<const int64_t> supply,
                                            uint32_t height);

}  // namespace banyan::plan
