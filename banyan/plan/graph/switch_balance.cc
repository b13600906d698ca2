#include "banyan/plan/graph/switch_balance.h"

#include <algorithm>

#include "banyan/plan/graph/cut_condition.h"

namespace banyan::plan {
namespace {

// Switches are visited in turn, as taking an arc's capacity upsets the one at its other end. Every round takes capacity
// away or ends.
class SwitchBalancer {
 public:
  SwitchBalancer(const Network& network, std::vector<int64_t>& capacity, const std::vector<int64_t>& supply)
      : network_(network), capacity_(capacity), supply_(supply), condition_(network) {}

  // The switch that stays unbalanced.
  std::optional<uint32_t> balance() {
    for (bool changed = true; changed;) {
      changed = false;
      std::optional<uint32_t> unbalanced;
      for (uint32_t v = network_.terminal_count(); v < network_.vertex_count(); ++v) {
        const int64_t excess = sum(network_.in_arcs(v)) - sum(network_.out_arcs(v));
        if (excess == 0) continue;
        unbalanced = v;
        changed |= trim(excess > 0 ? network_.in_arcs(v) : network_.out_arcs(v), std::abs(excess));
      }
      if (!unbalanced || !changed) return unbalanced;
    }
    return std::nullopt;
  }

 private:
  int64_t sum(std::span<const uint32_t> arcs) const {
    int64_t total = 0;
    for (const uint32_t a : arcs) total += capacity_[a];
    return total;
  }

  // Takes up to `excess` off these arcs, one after the other: all of it at first, then back what the violated cuts
  // lack. The arc enters each of them, since the condition held before. True when anything was taken.
  bool trim(std::span<const uint32_t> arcs, int64_t excess) {
    bool changed = false;
    for (const uint32_t a : arcs) {
      int64_t cut = std::min(excess, capacity_[a]);
      capacity_[a] -= cut;
      while (cut > 0) {
        const auto violated = condition_.find_violated({.capacity = capacity_, .supply = supply_});
        if (!violated) break;
        const int64_t back = std::min(cut, shortage(*violated));
        capacity_[a] += back;
        cut -= back;
      }
      excess -= cut;
      changed |= cut > 0;
      if (excess == 0) break;
    }
    return changed;
  }

  int64_t shortage(const VertexSet& cut) const {
    int64_t shortage = 0;
    for (uint32_t t = 0; t < network_.terminal_count(); ++t) shortage += cut[t] ? 0 : supply_[t];
    for (uint32_t a = 0; a < capacity_.size(); ++a) {
      if (cut[network_.arcs()[a].head] && !cut[network_.arcs()[a].tail]) shortage -= capacity_[a];
    }
    return shortage;
  }

  const Network& network_;
  std::vector<int64_t>& capacity_;
  const std::vector<int64_t>& supply_;
  CutCondition condition_;
};

int64_t excess_at(const Network& network, uint32_t v, std::span<const int64_t> capacity) {
  int64_t excess = 0;
  for (const uint32_t a : network.in_arcs(v)) excess += capacity[a];
  for (const uint32_t a : network.out_arcs(v)) excess -= capacity[a];
  return excess;
}

}  // namespace

bool is_balanced(const Network& network, std::span<const int64_t> capacity) {
  for (uint32_t v = network.terminal_count(); v < network.vertex_count(); ++v) {
    if (excess_at(network, v, capacity) != 0) return false;
  }
  return true;
}

std::optional<uint32_t> balance_switches(const Network& network, std::vector<int64_t>& capacity,
                                         const std::vector<int64_t>& supply) {
  return SwitchBalancer(network, capacity, supply).balance();
}

}  // namespace banyan::plan
