// Chooses lossy cables to disable on a fabric that is no Clos: the capacity of a rank is what it can surely exchange.
//
// That is the least max-flow from the rank to any other rank, which it can broadcast, and from any other rank to it,
// which can be reduced to it (Edmonds); the one that is the smaller share of what it was at first counts. Switches and
// other ranks forward. Cables are decided from the most loss down; feasible sets are found by branch and bound, where
// all of what is undecided bounds what may still come. Each try is up to two flows for each pair of ranks that are near
// each other (plan/graph/cut_condition.h), so that this is for small fabrics and few lossy cables; beyond kMaxFlowWork
// the best choice so far is given, and how much more there might be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/design/clos_choice.h"
#include "banyan/fabric/cables.h"
#include "banyan/plan/graph/network.h"

namespace banyan::design {

class FlowCapacities {
 public:
  static constexpr size_t kMaxRanks = 512;

  // Throws Error{unsupported} beyond kMaxRanks.
  FlowCapacities(const Fabric& fabric, const fabric::Cables& cables);

  void disable(uint32_t cable) { set(cable, 0); }
  void enable(uint32_t cable) { set(cable, 1); }
  // True if every rank has at least this share of what it had at first.
  bool hold(const Fraction& share);
  // The share that the rank with the least of it has now.
  Fraction least_share();
  uint64_t work() const { return work_; }  // arcs looked at

 private:
  struct Side {  // out of a rank, or into it
    plan::Network network;
    std::vector<int64_t> capacity;    // by arc, of what is enabled
    std::vector<int64_t> first = {};  // by terminal: the flow at first
    std::vector<uint32_t> arc_of_link = {};
  };
  void set(uint32_t cable, int enabled);
  int64_t flow(Side& side, uint32_t terminal);

  const fabric::Cables& cables_;
  std::vector<Side> sides_;
  uint64_t work_ = 0;
};

// As for Clos fabrics (clos_choice.h). All cables are enabled, before and after.
Choice choose_cables(FlowCapacities& capacities, std::span<const LossyCable> lossy, const Fraction& share);

}  // namespace banyan::design
