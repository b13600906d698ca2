#include "banyan/run/engine/route_lanes.h"

#include <algorithm>

namespace banyan::run {
namespace {

constexpr uint32_t kUnknown = UINT32_MAX;

}  // namespace

RouteLanes::RouteLanes(const Schedule& schedule)
    : schedule_(schedule), cables_(schedule.fabric()), lane_of_(schedule.route_count(), kUnknown) {}

uint32_t RouteLanes::lane(RouteId id) {
  uint32_t& number = lane_of_[index(id)];
  if (number != kUnknown) return number;
  const Route route = schedule_.route(id);
  // A route and its way back cross the same cables, so they are written down from the lower end.
  const bool is_from_lower = index(route.from) < index(route.to);
  std::vector<uint32_t> cables;
  for (const LinkId link : route.links) cables.push_back(cables_.of(link));
  if (!is_from_lower) std::reverse(cables.begin(), cables.end());
  std::vector<Lane>& lanes = lanes_[std::minmax(route.from, route.to)];
  auto found = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.cables == cables; });
  if (found == lanes.end()) found = lanes.insert(lanes.end(), Lane{.cables = std::move(cables)});
  (is_from_lower ? found->from_lower : found->from_higher).assign(route.links.begin(), route.links.end());
  number = static_cast<uint32_t>(found - lanes.begin());
  return number;
}

std::vector<PlanLane> RouteLanes::of(std::span<const NodeId> participants, uint32_t participant) const {
  std::vector<PlanLane> result;
  const NodeId own = participants[participant];
  for (uint32_t peer = 0; peer < participants.size(); ++peer) {
    const auto found = lanes_.find(std::minmax(own, participants[peer]));
    if (peer == participant || found == lanes_.end()) continue;
    // Links are told from this rank's side.
    const bool is_lower = index(own) < index(participants[peer]);
    for (uint32_t number = 0; number < found->second.size(); ++number) {
      const Lane& lane = found->second[number];
      result.push_back({.peer = peer,
                        .lane = number,
                        .to_peer = is_lower ? lane.from_lower : lane.from_higher,
                        .from_peer = is_lower ? lane.from_higher : lane.from_lower});
    }
  }
  return result;
}

}  // namespace banyan::run
