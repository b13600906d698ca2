// The first guess for fabrics without switches: every root spreads along shortest paths only.
//
// If each receiver can split what it must get from every root over those of its in-arcs that come from one hop nearer
// to the root, without overloading an arc, any choice of one such parent per receiver is a tree, and its height is the
// least possible. Receivers do not interact, so this is one small transport problem each (the balance that BFB solves
// per step, arXiv 2202.03356 section 5, here over all steps at once). It reaches the optimum on tori, hypercubes,
// complete and circulant graphs and every other fabric regular enough; elsewhere it returns nothing and pack_trees
// takes over.
#pragma once

#include <memory>

#include "banyan/plan/forest/tree_source.h"

namespace banyan::plan {

std::unique_ptr<TreeSource> pack_along_shortest_paths(const Network& network, std::span<const int64_t> capacity,
                                                      std::span<const int64_t> supply);

}  // namespace banyan::plan
