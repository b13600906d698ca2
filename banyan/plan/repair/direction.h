// One direction of a plan, its in-trees or its out-trees, repaired: which trees stay, and new ones for the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/plan/forest/packing.h"
#include "banyan/plan/graph/network.h"
#include "banyan/plan/repair/link_match.h"
#include "banyan/plan/repair/tree_keeper.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

// The old plan as it stands on the changed fabric.
struct OldPlan {
  const Schedule& schedule;
  const LinkMatch& links;
  const Fabric& fabric;               // as it is now
  const Collective& collective;       // of the ranks that are left
  std::vector<uint32_t> terminal_of;  // by old node: which participant it is now, or kLost
  std::vector<size_t> chunks;         // those whose root is left, by number
  static constexpr uint32_t kLost = UINT32_MAX;

  bool is_lost(NodeId old) const { return terminal_of[index(old)] == kLost; }
};

// Edges of a tree without those to lost ranks. Nothing where a lost rank passes data on, or a link is gone.
std::optional<std::vector<uint32_t>> edges_left(const OldPlan& old, std::span<const RouteId> tree, bool gathering);

class Direction {
 public:
  // Of a reduce or gather, the network is turned round.
  Direction(const OldPlan& old, bool gathering, PlanObserver* observer);

  const Network& network() const { return network_; }
  bool gathering() const { return gathering_; }
  const std::vector<TreeKeeper::Tree>& trees() const { return trees_; }  // by place in OldPlan::chunks, old units
  const std::vector<int64_t>& supply() const { return supply_; }         // by terminal, old units
  // Old units that all old trees of this direction together load on each arc.
  std::vector<int64_t> loads(const OldPlan& old) const;

  // Units are `scale` times the old ones from here on.
  void set_scale(int64_t scale);

  struct Outcome {
    std::vector<uint8_t> stays;  // by tree
    Packing packing;             // of the others
    Fraction time;               // units over rate
  };
  // Nothing when no tree can stay, or the rest cannot be packed since a switch stays unbalanced.
  // `least` is a time in which everything could be packed anew.
  std::optional<Outcome> repair(const ArcCapacities& capacities, const Fraction& least, const Fraction& most) const;

  // Whether `scale` times all units could be packed anew in that time.
  bool suffices(const ArcCapacities& capacities, const Fraction& time, int64_t scale) const;

 private:
  bool gathering_;
  Network network_;
  std::vector<TreeKeeper::Tree> trees_;
  std::vector<int64_t> supply_;
};

}  // namespace banyan::plan
