// Footprints with the latencies and efficiencies of a device's links, or of measured curves where there are any.
//
// Which links a collective loads is said by other plans. Its latency is the device's per doubling of the ranks that
// take part; its efficiency is that of the link that holds it back: of links inside a box, or of the network. Where a
// collective was measured (cost/collective_cost.h), both are those of the curve at its size.
#pragma once

#include <memory>
#include <vector>

#include "banyan/predict/cost/collective_cost.h"
#include "banyan/predict/footprint.h"

namespace banyan {

std::unique_ptr<CollectivePlans> make_costed_plans(const Fabric& fabric, std::unique_ptr<CollectivePlans> plans,
                                                   const LinkEfficiency& links, std::vector<CollectiveCost> measured);

}  // namespace banyan
