// RouteLanes: numbers the routes that a schedule uses between each two ranks, in order of first appearance.
//
// A route and its way back are one lane, because they can share a connection: a route is known by the cables that it
// crosses (fabric/cables.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "banyan/fabric/cables.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/schedule/schedule.h"

namespace banyan::run {

class RouteLanes {
 public:
  explicit RouteLanes(const Schedule& schedule);

  // The lane of a route; the next of its pair of ranks when it is asked for at first.
  uint32_t lane(RouteId id);
  // The lanes of a participant, so far, in order of peer and number.
  std::vector<PlanLane> of(std::span<const NodeId> participants, uint32_t participant) const;

 private:
  using Pair = std::pair<NodeId, NodeId>;  // the lower node first
  struct Lane {
    std::vector<uint32_t> cables;                           // from the lower node of the pair to the higher
    std::vector<LinkId> from_lower = {}, from_higher = {};  // empty while not used
  };

  const Schedule& schedule_;
  const fabric::Cables cables_;
  std::vector<uint32_t> lane_of_;  // by route; kUnknown when it has not appeared
  std::map<Pair, std::vector<Lane>> lanes_;
};

}  // namespace banyan::run
