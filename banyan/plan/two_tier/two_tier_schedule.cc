#include "banyan/plan/two_tier/two_tier_schedule.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/fabric/boxes.h"
#include "banyan/fabric/routing.h"
#include "banyan/plan/two_tier/parcels.h"
#include "banyan/plan/two_tier/two_tier.h"

namespace banyan::plan {
namespace {

Error cannot(const std::string& message) { return Error(ErrorCode::unsupported, message); }

// Participants' numbers, box by box.
struct Places {
  TwoTierShape shape;
  std::vector<size_t> participants;
};

Places places_of(const Fabric& fabric, const Collective& collective) {
  constexpr size_t kNobody = SIZE_MAX;
  std::vector<size_t> participant_of(fabric.nodes().size(), kNobody);
  for (size_t p = 0; p < collective.participants().size(); ++p) participant_of[index(collective.participants()[p])] = p;
  Places places{.shape = {.boxes = 0, .gpus = 0}, .participants = {}};
  for (const std::vector<NodeId>& box : fabric::find_boxes(fabric).ranks) {
    uint32_t gpus = 0;
    for (const NodeId rank : box) {
      if (participant_of[index(rank)] == kNobody) continue;
      places.participants.push_back(participant_of[index(rank)]);
      ++gpus;
    }
    if (gpus == 0) continue;
    if (places.shape.gpus == 0) places.shape.gpus = gpus;
    if (gpus != places.shape.gpus)
      throw cannot("two tiers need boxes of equal size: there are some of " + std::to_string(places.shape.gpus) +
                   " ranks and of " + std::to_string(gpus));
    ++places.shape.boxes;
  }
  if (places.shape.boxes < 2) throw cannot("all ranks are in one box; two tiers need two boxes or more");
  return places;
}

class Converter {
 public:
  Converter(const Fabric& fabric, const Collective& collective)
      : fabric_(fabric),
        collective_(collective),
        places_(places_of(fabric, collective)),
        traffic_(collective.participants().size() * collective.participants().size()),
        routes_(fabric),
        builder_(fabric, collective) {
    const uint32_t ranks = places_.shape.ranks();
    for (uint32_t from = 0; from < ranks; ++from)
      for (uint32_t to = 0; to < ranks; ++to) {
        if (from == to) continue;
        const uint64_t parts = collective.traffic(places_.participants[from], places_.participants[to]);
        if (parts > TwoTierPlanner::kMostBytes / places_.shape.gpus) {
          throw cannot("two tiers count at most 2^44 parts for a pair of ranks and one has " + std::to_string(parts) +
                       "; count in larger units");
        }
        traffic_[size_t{from} * ranks + to] = parts * places_.shape.gpus;
      }
  }

  Schedule convert() && {
    TwoTierPlanner planner(places_.shape, {.pieces = 1});
    const TwoTierPlan& plan = planner.plan(traffic_);
    for (uint32_t from = 0; from < places_.shape.boxes; ++from)
      for (uint32_t to = 0; to < places_.shape.boxes; ++to)
        if (from == to)
          add_inside(from);
        else
          add_between(plan, from, to);
    return std::move(builder_).build();
  }

 private:
  // Ranks here are places: GPU i of box b is b * gpus + i.
  NodeId node(uint32_t rank) const { return collective_.participants()[places_.participants[rank]]; }

  void add_inside(uint32_t box) {
    const uint32_t gpus = places_.shape.gpus, ranks = places_.shape.ranks();
    for (uint32_t from = box * gpus; from < (box + 1) * gpus; ++from)
      for (uint32_t to = box * gpus; to < (box + 1) * gpus; ++to) {
        const uint64_t units = traffic_[size_t{from} * ranks + to];
        if (units == 0) continue;
        const RouteId hop = route(from, to);
        builder_.add_chunk({.root = node(from), .units = units, .out_tree = {&hop, 1}});
      }
  }

  void add_between(const TwoTierPlan& plan, uint32_t from, uint32_t to) {
    const uint32_t gpus = places_.shape.gpus;
    std::vector<RouteId> hops;
    std::vector<uint32_t> steps;
    for (const Parcel& parcel : parcels_of(plan, traffic_, from, to)) {
      hops.clear();
      steps.clear();
      const auto add = [&](uint32_t begin, uint32_t end, uint32_t step) {
        if (begin == end) return;
        hops.push_back(route(begin, end));
        steps.push_back(parcel.stage + step);
      };
      const uint32_t source = from * gpus + parcel.source, target = to * gpus + parcel.target;
      add(source, from * gpus + parcel.via, 1);
      add(from * gpus + parcel.via, to * gpus + parcel.via, 2);
      add(to * gpus + parcel.via, target, 3);
      builder_.add_chunk({.root = node(source), .units = parcel.bytes, .out_tree = hops, .out_steps = steps});
    }
  }

  RouteId route(uint32_t from, uint32_t to) {
    const auto [known, is_new] = route_ids_.try_emplace(uint64_t{from} << 32 | to);
    if (!is_new) return known->second;
    way_.clear();
    if (!routes_.find_first(node(from), node(to), way_))
      throw cannot("no route from " + fabric_.name(node(from)) + " to " + fabric_.name(node(to)) +
                   " without passing through a rank");
    return known->second = builder_.add_route(way_);
  }

  const Fabric& fabric_;
  const Collective& collective_;
  Places places_;
  std::vector<uint64_t> traffic_;  // by place
  fabric::Routing routes_;
  Schedule::Builder builder_;
  std::unordered_map<uint64_t, RouteId> route_ids_;
  std::vector<LinkId> way_;
};

}  // namespace

Schedule two_tier_schedule(const Fabric& fabric, const Collective& collective) {
  if (collective.kind() != CollectiveKind::all_to_all)
    throw cannot("two tiers are for all-to-all, not for " + std::string(to_string(collective.kind())));
  return Converter(fabric, collective).convert();
}

}  // namespace banyan::plan
