// Costs of a job's collectives on a fabric: of a device's links, or measured curves where there are any.
//
// Other plans say which links a collective loads. Its latency is the device's per doubling of the ranks that take part,
// and links give as much of their bandwidth as protocols reach of it (link_efficiencies). A measured collective
// (cost/collective_cost.h) has the latency and efficiency of the curve at its size, of links at their full bandwidth;
// or the time that was measured, if it is not known on which links that was.
#pragma once

#include <memory>
#include <vector>

#include "banyan/predict/collective/footprint.h"
#include "banyan/predict/cost/collective_cost.h"

namespace banyan::predict {

// `plans` are those of the fabric.
std::unique_ptr<CollectivePlans> make_costed_plans(const Fabric& fabric, std::unique_ptr<CollectivePlans> plans,
                                                   const LinkEfficiency& links, std::vector<CollectiveCost> measured);

// Efficiencies for JobSimulationOptions, indexed by link: that of links inside a box, and of the network elsewhere. All
// 1 if collectives are measured, since the curves hold it already.
std::vector<double> link_efficiencies(const Fabric& fabric, const LinkEfficiency& links, bool are_measured);

}  // namespace banyan::predict
