// From trees of one or both directions of a collective to its schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/plan/forest/tree_source.h"
#include "banyan/plan/graph/network.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

// One direction of a collective, planned: trees of `trees_per_weight` units per unit of weight.
struct DirectedTrees {
  Network network;
  int64_t trees_per_weight = 0;
  std::unique_ptr<TreeSource> trees;
};

// For each link its opposite of the same bandwidth, or nothing when some link has none.
std::optional<std::vector<LinkId>> opposite_links(const Fabric& fabric);

// `gather` is planned on the reversed network. An allreduce without it has in-trees that are its out-trees turned
// round; every link of the fabric has then an opposite. With both, each root has the same share in both directions.
// Takes time linear in the trees.
Schedule to_schedule(const Fabric& fabric, const Collective& collective, std::optional<DirectedTrees> gather,
                     std::optional<DirectedTrees> spread);

}  // namespace banyan::plan
