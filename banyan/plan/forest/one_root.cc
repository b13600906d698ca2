#include "banyan/plan/forest/one_root.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "banyan/plan/forest/across_cut.h"
#include "banyan/plan/forest/cut_ledger.h"
#include "banyan/plan/forest/exchange.h"
#include "banyan/plan/forest/hubs.h"
#include "banyan/plan/forest/tree_grower.h"

namespace banyan::plan {
namespace {

// One tree that goes straight to everybody, where every link of the root's has room for that.
std::optional<Packing> pack_straight(const OneRoot& problem) {
  const std::vector<int64_t> nothing_owed(problem.network.terminal_count(), 0);
  CutLedger ledger(problem.network);
  TreeGrower grower(problem.network, {.left = problem.capacity, .initial = problem.capacity, .supply = nothing_owed},
                    ledger);
  if (!grower.grow(problem.root, problem.supply, {.max_height = 1, .waits_for = TreeGrower::Waits::wider}))
    return std::nullopt;
  Packing packing;
  packing.growths = 1;
  packing.add(grower.tree(), problem.supply);
  return packing;
}

}  // namespace

uint32_t height_of(const Packing& packing) {
  uint32_t height = 0;
  for (const PackedTree& tree : packing.trees) height = std::max(height, tree.height);
  return height;
}

std::optional<OneRootPacking> pack_one_root(const OneRoot& problem) {
  // One tree straight to everybody is as low as can be. Without switches the exchange is the search that fits.
  if (auto packing = pack_straight(problem)) return OneRootPacking{.packing = std::move(*packing)};
  if (auto packing = pack_by_exchange(problem)) return OneRootPacking{.packing = std::move(*packing)};
  // Packing the far side of a cut takes long where there is no symmetry, and seldom leads lower than this.
  const uint32_t content = 3 * low_enough(least_height_from(problem.network, problem.root));
  std::optional<OneRootPacking> best;
  for (const auto pack : {pack_over_hubs, pack_across_cut}) {
    if (best && height_of(best->packing) <= content) break;
    auto packing = pack(problem);
    if (packing && (!best || height_of(packing->packing) < height_of(best->packing))) best = std::move(packing);
  }
  return best;
}

}  // namespace banyan::plan
