// Paths up in a Clos fabric: their number from each rank to the top tier, kept up to date link by link.
//
// Tiers: ranks are tier 0, a switch is one above the lowest of its neighbours, as counted from the ranks. A fabric is a
// Clos where it has at least two tiers of switches, all cables (fabric/cables.h) have both directions and join
// neighbouring tiers, and every rank has a path up. A path up takes one cable from each tier to the next; parallel
// cables make paths of their own. Nodes without a path to the top tier, such as an NVSwitch beside the rails, count for
// nothing.
//
// The capacity of a rank is its number of paths up, as for top-of-rack switches in CorrOpt (Zhuo et al., "Understanding
// and mitigating packet corruption in data center networks", SIGCOMM 2017, section 5). Disabling a cable costs each
// rank below it the paths through it. A change walks down from the cable: O(cables below its lower end).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/fabric/cables.h"
#include "banyan/fabric/fabric.h"

namespace banyan::design {

class UpPaths {
 public:
  // Nothing where the fabric is no Clos, or has more than 2^60 paths up. `cables` outlives it.
  static std::optional<UpPaths> of(const Fabric& fabric, const fabric::Cables& cables);

  struct Ends {
    NodeId lower{}, upper{};
  };
  Ends ends(uint32_t cable) const { return ends_[cable]; }
  uint32_t tier(NodeId node) const { return tier_[index(node)]; }
  uint64_t paths(NodeId node) const { return paths_[index(node)]; }  // over cables that are enabled
  uint64_t paths_at_first(NodeId node) const { return first_[index(node)]; }
  bool is_enabled(uint32_t cable) const { return enabled_[cable] != 0; }
  std::span<const uint32_t> cables_up(NodeId node) const { return up_[index(node)]; }

  void disable(uint32_t cable) { change(cable, false); }
  void enable(uint32_t cable) { change(cable, true); }
  // The ranks whose number of paths the last change has changed.
  const std::vector<NodeId>& touched_ranks() const { return touched_ranks_; }

 private:
  UpPaths() = default;
  bool find_tiers(const Fabric& fabric, const fabric::Cables& cables);
  bool count_paths(const Fabric& fabric);
  void change(uint32_t cable, bool enabled);

  std::vector<Ends> ends_;  // by cable
  std::vector<uint8_t> enabled_;
  std::vector<uint32_t> tier_;  // by node
  std::vector<uint64_t> paths_, first_;
  std::vector<std::vector<uint32_t>> up_, down_;  // by node: cables
  std::vector<std::vector<NodeId>> of_tier_;      // nodes
  // State of a change under way: the paths gained or lost, by node; the nodes with any, by tier.
  std::vector<int64_t> delta_;
  std::vector<std::vector<NodeId>> waiting_;
  std::vector<NodeId> touched_ranks_;
};

}  // namespace banyan::design
