// Trees that branch at switches as they like, found by prices of links: for what no packing of trees that all span the
// same switches reaches (bound/overlap.h), such as rails of which every tree uses one, or passive splitters.
//
// The best rates of given trees are a linear program, and its dual puts a price on every link. A tree that is cheaper
// at these prices than those that are known raises the throughput; so trees are added, the cheapest of every root and
// direction, until none is cheaper (column generation; as rows of the dual here, which is what the solver is given).
// The cheapest tree is a Steiner tree and found by a guess (steiner_tree.h), so that where none is found a better one
// may exist: the bound tells how far away that can be.
//
// If the fabric declares symmetries that act on the participants, a tree stands for all its images; if every arc has
// its opposite, an in-tree is an out-tree turned round. The program then has a row and a price for each class of these
// (graph/arc_classes.h), a few in boxes or rails however many ranks there are.
#pragma once

#include <memory>
#include <optional>

#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"
#include "banyan/plan/forest/tree_source.h"
#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/collective.h"

namespace banyan::plan {

// Trees over networks without switch terminals. Both directions have the same units for every root; in proportion to
// the weights, where the collective says what a root has. `gather` is null where the collective does not gather, or
// where its trees are those of `spread` turned round.
struct PricedTrees {
  std::unique_ptr<TreeSource> gather, spread;
};

// `enough`: seconds per byte that need not be improved on. Nothing when the fabric is too large for it: work is
// counted, and what has been found when it is spent stands.
std::optional<PricedTrees> pack_priced_trees(const Fabric& fabric, const Collective& collective, const Fraction& enough,
                                             PlanObserver* observer = nullptr);

}  // namespace banyan::plan
