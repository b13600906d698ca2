#include "banyan/predict/costed_plans.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace banyan {
namespace {

Picoseconds times(Picoseconds time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.count()) * factor));
}

class CostedPlans : public CollectivePlans {
 public:
  CostedPlans(const Fabric& fabric, std::unique_ptr<CollectivePlans> plans, const LinkEfficiency& links,
              std::vector<CollectiveCost> measured)
      : fabric_(fabric),
        boxes_(find_boxes(fabric)),
        plans_(std::move(plans)),
        links_(links),
        measured_(std::move(measured)) {}

  Footprint footprint(const CollectiveCall& call) override {
    Footprint footprint = plans_->footprint(call);
    const double doublings = std::log2(static_cast<double>(call.members.size()));
    const uint32_t members = static_cast<uint32_t>(call.members.size());
    if (const CollectiveCost* cost = nearest_cost(measured_, call.kind, members)) {
      const CollectiveCostPiece& piece = cost->piece(call.bytes);
      footprint.latency = times(piece.alpha, doublings / std::log2(cost->ranks));
      footprint.efficiency = piece.efficiency;
      return footprint;
    }
    footprint.latency = times(links_.latency, doublings);
    // What the link that takes longest at its own efficiency leaves of the rate of the one that takes longest at full.
    double full = 0, real = 0;
    for (const FluidHop& hop : footprint.hops) {
      const Link& link = fabric_.links()[hop.link];
      const double seconds = hop.coefficient / static_cast<double>(link.bandwidth.bytes_per_second());
      full = std::max(full, seconds);
      real = std::max(real, seconds / (is_inside(link) ? links_.scale_up : links_.network));
    }
    footprint.efficiency = real > 0 ? full / real : 1;
    return footprint;
  }

 private:
  bool is_inside(const Link& link) const {
    const uint32_t box = boxes_.box_of[index(link.from)];
    return box != Boxes::kNone && box == boxes_.box_of[index(link.to)];
  }

  const Fabric fabric_;
  const Boxes boxes_;
  const std::unique_ptr<CollectivePlans> plans_;
  const LinkEfficiency links_;
  const std::vector<CollectiveCost> measured_;
};

}  // namespace

std::unique_ptr<CollectivePlans> make_costed_plans(const Fabric& fabric, std::unique_ptr<CollectivePlans> plans,
                                                   const LinkEfficiency& links, std::vector<CollectiveCost> measured) {
  return std::make_unique<CostedPlans>(fabric, std::move(plans), links, std::move(measured));
}

}  // namespace banyan
