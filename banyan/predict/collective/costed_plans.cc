#include "banyan/predict/collective/costed_plans.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::predict {
namespace {

Picoseconds times(Picoseconds time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.count()) * factor));
}

class CostedPlans : public CollectivePlans, public CollectiveMessages {
 public:
  CostedPlans(const Fabric& fabric, std::unique_ptr<CollectivePlans> plans, const LinkEfficiency& links,
              std::vector<CollectiveCost> measured)
      : fabric_(fabric), plans_(std::move(plans)), links_(links), measured_(std::move(measured)) {}

  Footprint footprint(const CollectiveCall& call) override {
    Footprint footprint = plans_->footprint(call);
    const double doublings = std::log2(static_cast<double>(call.members.size()));
    if (const CollectiveCost* cost = find_cost(call)) {
      const CollectiveCostPiece& piece = cost->piece(call.bytes);
      footprint.latency = times(piece.alpha, doublings / std::log2(cost->ranks));
      footprint.efficiency = cost->as_measured ? reaching(cost->link, piece, call, footprint) : piece.efficiency;
      return footprint;
    }
    footprint.latency = times(links_.latency, doublings);
    return footprint;
  }

  CollectiveMessages* messages() override { return plans_->messages() == nullptr ? nullptr : this; }

  TransferGraph transfers(const CollectiveCall& call, Picoseconds alpha) override {
    if (find_cost(call) != nullptr) {
      throw Error(ErrorCode::unsupported,
                  std::string(to_string(call.kind)) + " of " + std::to_string(call.members.size()) +
                      " ranks has a cost that was measured as a whole (--costs), which says nothing of its messages; "
                      "use --collectives flow, or leave --costs out");
    }
    return plans_->messages()->transfers(call, alpha);
  }

 private:
  // The efficiency at which the busiest link takes as long as was measured; at most all of it.
  double reaching(Bandwidth link, const CollectiveCostPiece& piece, const CollectiveCall& call,
                  const Footprint& footprint) const {
    double at_full_bandwidth = 0;
    for (const FluidHop& hop : footprint.hops) {
      const auto width = static_cast<double>(fabric_.links()[hop.link].bandwidth.bytes_per_second());
      at_full_bandwidth = std::max(at_full_bandwidth, hop.coefficient / width);
    }
    const double bytes = busbw_factor(call.kind, call.members.size()) * static_cast<double>(call.bytes);
    const double measured = bytes / (static_cast<double>(link.bytes_per_second()) * piece.efficiency);
    return at_full_bandwidth > 0 && measured > at_full_bandwidth ? at_full_bandwidth / measured : 1;
  }

  const CollectiveCost* find_cost(const CollectiveCall& call) const {
    return nearest_cost(measured_, call.kind, static_cast<uint32_t>(call.members.size()));
  }

  const Fabric fabric_;
  const std::unique_ptr<CollectivePlans> plans_;
  const LinkEfficiency links_;
  const std::vector<CollectiveCost> measured_;
};

}  // namespace

std::unique_ptr<CollectivePlans> make_costed_plans(const Fabric& fabric, std::unique_ptr<CollectivePlans> plans,
                                                   const LinkEfficiency& links, std::vector<CollectiveCost> measured) {
  return std::make_unique<CostedPlans>(fabric, std::move(plans), links, std::move(measured));
}

std::vector<double> link_efficiencies(const Fabric& fabric, const LinkEfficiency& links, bool are_measured) {
  const fabric::Boxes boxes = find_boxes(fabric);
  std::vector<double> efficiencies;
  for (const Link& link : fabric.links()) {
    const uint32_t box = boxes.box_of[index(link.from)];
    const bool is_inside = box != fabric::Boxes::kNone && box == boxes.box_of[index(link.to)];
    efficiencies.push_back(are_measured ? 1 : is_inside ? links.scale_up : links.network);
  }
  return efficiencies;
}

}  // namespace banyan::predict
