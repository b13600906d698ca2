// Costs of a job's collectives on a fabric: of a device's links, or measured curves where there are any.
//
// Which links a collective loads is said by other plans. Its latency is the device's per doubling of the ranks that
// take part, and links give as much of their bandwidth as protocols reach of it (link_efficiencies). Where a collective
// was measured (cost/collective_cost.h), its latency and efficiency are those of the curve at its size, of links at
// their full bandwidth; or its time is what was measured, where it is not known on which links that was.
#pragma once

#include <memory>
#include <vector>

#include "banyan/predict/collective/footprint.h"
#include "banyan/predict/cost/collective_cost.h"

namespace banyan::predict {

// `plans` are those of the fabric.
std::unique_ptr<CollectivePlans> make_costed_plans(const Fabric& fabric, std::unique_ptr<CollectivePlans> plans,
                                                   const LinkEfficiency& links, std::vector<CollectiveCost> measured);

// By link, for JobSimulationOptions: that of links inside a box, and of the network elsewhere. All 1 where collectives
// are measured, since the curves hold it already.
std::vector<double> link_efficiencies(const Fabric& fabric, const LinkEfficiency& links, bool are_measured);

}  // namespace banyan::predict
