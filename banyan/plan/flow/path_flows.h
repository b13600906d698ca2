// Path flows: the paths that the demand of each pair of terminals takes.
//
// A path is a list of arcs of a network, none twice, that leads from the source to the target; it may pass through
// other terminals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// Paths, each with the amount of its pair's demand that it carries.
template <typename Amount>
class PathList {
 public:
  struct Path {
    uint32_t source = 0, target = 0;
    Amount amount = 0;
    std::span<const uint32_t> arcs;
  };

  void add(uint32_t source, uint32_t target, Amount amount, std::span<const uint32_t> arcs) {
    rows_.push_back({source, target, amount, static_cast<uint32_t>(arcs.size()), arcs_.size()});
    arcs_.insert(arcs_.end(), arcs.begin(), arcs.end());
  }
  void add(const Path& path) { add(path.source, path.target, path.amount, path.arcs); }
  void set_amount(size_t i, Amount amount) { rows_[i].amount = amount; }
  // Sorts by source, then target, then the fewest arcs first, then as they were added.
  void sort() {
    std::ranges::stable_sort(rows_, {}, [](const Row& a) { return std::tie(a.source, a.target, a.count); });
  }

  size_t size() const { return rows_.size(); }
  Path operator[](size_t i) const {
    const Row& row = rows_[i];
    return {row.source, row.target, row.amount, std::span(arcs_).subspan(row.begin, row.count)};
  }

 private:
  struct Row {
    uint32_t source, target;
    Amount amount;
    uint32_t count;
    uint64_t begin;
  };
  std::vector<Row> rows_;
  std::vector<uint32_t> arcs_;
};

// With whole shares: a pair with demand D ships D * units_per_demand, and the amounts of its paths sum to exactly that.
struct PathFlows : PathList<int64_t> {
  int64_t units_per_demand = 1;
};

// The greatest load: over all arcs, the demand that crosses it by its bandwidth. It is 1/f where f is the rate at which
// all demands are shipped at once, in units of demand, with bandwidths as the network counts them.
Fraction greatest_load(const Network& network, const PathFlows& flows);

}  // namespace banyan::plan
