// One direction of a plan, its in-trees or its out-trees, repaired: which trees stay, and new ones for the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/plan/forest/packing.h"
#include "banyan/plan/graph/network.h"
#include "banyan/plan/repair/link_match.h"
#include "banyan/plan/repair/tree_keeper.h"
#include "banyan/plan/repair/tree_patcher.h"
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

class Direction {
 public:
  // The network is turned round if `gathering`.
  Direction(const OldPlan& old, bool gathering, PlanObserver* observer);

  const Network& network() const { return network_; }
  bool gathering() const { return gathering_; }
  const std::vector<TreeKeeper::Tree>& trees() const { return trees_; }  // by place in OldPlan::chunks, old units
  const std::vector<int64_t>& supply() const { return supply_; }         // by terminal, old units

  // Units are `scale` times the old ones from here on.
  void set_scale(int64_t scale);

  enum class Fate : uint8_t { stays, patched, moved };
  struct Outcome {
    std::vector<Fate> fates;                   // by tree
    std::vector<std::vector<PathEdge>> edges;  // by tree, parents before children; empty for those that moved
    Packing packing;                           // in place of those
  };
  // Nothing when all trees move, or the rest cannot be packed since a switch stays unbalanced.
  // `least` is a time in which everything could be packed anew.
  std::optional<Outcome> repair(const ArcCapacities& capacities, const Fraction& least, const Fraction& most) const;

  // True if `scale` times all units could be packed anew in that time.
  bool suffices(const ArcCapacities& capacities, const Fraction& time, int64_t scale) const;

 private:
  struct Patching;  // trees that stay and those that were patched, in some time
  std::optional<Patching> patch_in(const TreeKeeper& keeper, const Fraction& time) const;
  static bool pack_rest(const Network& network, Patching& patching);

  bool gathering_;
  Network network_;
  std::vector<TreeKeeper::Tree> trees_;
  std::vector<std::vector<PathEdge>>
      edges_;  // by tree: those between ranks that are left; arcs of a gone one are not all
  std::vector<int64_t> supply_;
};

}  // namespace banyan::plan
