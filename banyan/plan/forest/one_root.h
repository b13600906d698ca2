// Trees of a single root, as broadcast and reduce have them, at the bound and low.
//
// Grown one after the other such trees are tall: the first takes what it likes of every arc, and where a rank can send
// no more than the rate of the broadcast, as on a star, a single tree can only be a chain. So there are three ways of
// planning them together, of which the lowest result is taken:
//
//   exchange.h    without switches: the trees grow side by side and exchange arcs until all are low;
//   hubs.h        the root deals its data out to hubs, and these spread it as in an allgather;
//   across_cut.h  the root's side of a cut without anything to spare is planned apart from what is beyond it.
//
// Each is a search that may find nothing; what it finds is exact, for it stays within the capacities and reaches every
// terminal with all units.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "banyan/plan/forest/packing.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct OneRoot {
  const Network& network;
  const Fabric& fabric;
  std::span<const int64_t> capacity;  // by arc; satisfies the cut condition
  uint32_t root = 0;
  int64_t supply = 0;      // units of trees that it owes
  int64_t most_units = 0;  // a unit may be cut into parts until there are so many of them; `supply`: it may not
  std::optional<uint32_t> max_height = {};  // absent: as low as found
  std::function<void(double fraction_done)> progress = {};
};

struct OneRootPacking {
  Packing packing;
  int64_t parts = 1;  // into which each unit of capacity and supply was cut
};

uint32_t height_of(const Packing& packing);

// Nothing when none of the searches finds trees, or none of at most max_height.
std::optional<OneRootPacking> pack_one_root(const OneRoot& problem);

}  // namespace banyan::plan
