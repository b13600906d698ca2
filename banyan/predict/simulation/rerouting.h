// Rerouting: ways and collectives on what is left of a fabric while some of its links are down.
//
// A fabric must join all of its ranks, and a failure may cut some off. So what is left is taken apart: nodes that reach
// each other both ways are a fabric of their own, with a routing and plans of its own, made when it is first asked for.
// Ranks in different parts have no way to each other here, not even where one direction is left. Links have the
// bandwidth that events have given them by then, so that of equally short ways the one that is widest now is taken.
//
// Complexity: for each state, one search for its parts; for each part, what its routing and plans cost. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/fabric/routing.h"
#include "banyan/predict/collective/footprint.h"
#include "banyan/predict/simulation/link_events.h"

namespace banyan::predict {

using PlansOnFabric = std::function<std::unique_ptr<CollectivePlans>(const Fabric& fabric)>;

class Rerouting {
 public:
  // `timeline` outlives it.
  Rerouting(Fabric fabric, const LinkTimeline& timeline, PlansOnFabric plans_for);
  ~Rerouting();

  // Links of the fabric; nothing when there is no way. `from` and `to` are different ranks.
  std::optional<std::vector<LinkId>> way(uint32_t state, NodeId from, NodeId to);
  // Nothing when its members are cut off from each other, or the plans for what is left do not support it.
  std::optional<Footprint> footprint(uint32_t state, const CollectiveCall& call);

 private:
  struct Part;
  struct State {
    std::vector<uint32_t> part_of;  // by node
    std::map<uint32_t, std::unique_ptr<Part>> parts;
  };

  State& state(uint32_t number);
  // The part that holds all of `nodes`; nullptr when none does.
  Part* part(uint32_t state_number, std::span<const NodeId> nodes);

  const Fabric fabric_;
  const LinkTimeline& timeline_;
  const PlansOnFabric plans_for_;
  std::map<uint32_t, State> states_;
};

}  // namespace banyan::predict
