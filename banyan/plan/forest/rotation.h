// The guess for symmetric fabrics: grow the trees of one root and rotate them.
//
// A fabric may declare a group of automorphisms that fixes no rank (Fabric::symmetries). If it acts on the participants
// and their supplies, the ranks fall into orbits of equal size; a tree grown for one rank of an orbit stands for its
// images, one for every other rank, and loads every arc of an arc orbit alike. So only one tree per orbit is grown,
// against the capacity that an arc has left for all images together. A complete packing is its own proof; a guess
// that gets stuck, or comes out tall, is thrown away and pack_trees takes over.
//
// The group is never listed (symmetry.h), and images are made when they are asked for (rotated_trees.h). 1024 ranks of
// DGX boxes are one orbit: 1023 edges are grown instead of a million.
//
// Trees that go straight to everybody are lowest, but of n ranks they have n^2 paths. If these would need more than
// kManyPathBytes, trees that enter every leaf once and spread inside it are preferred, one hop higher: a fat tree of
// 8,192 ranks has 67 million paths of the one kind and 4 million of the other.
#pragma once

#include <memory>
#include <optional>

#include "banyan/fabric/fabric.h"
#include "banyan/plan/forest/tree_source.h"

namespace banyan::plan {

constexpr size_t kManyPathBytes = size_t{1} << 30;  // as routes of a schedule

// Trees at most `max_height` high; without it, as low as is worth the while or a little higher: a search that takes
// longer seldom does better. Null when the fabric declares no symmetry, the problem does not share it, or the guess
// fails.
std::unique_ptr<TreeSource> pack_by_rotation(const Network& network, const Fabric& fabric,
                                             std::span<const int64_t> capacity, std::span<const int64_t> supply,
                                             std::optional<uint32_t> max_height = {},
                                             size_t many_path_bytes = kManyPathBytes);

}  // namespace banyan::plan
