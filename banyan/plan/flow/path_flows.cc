#include "banyan/plan/flow/path_flows.h"

namespace banyan::plan {

Fraction greatest_load(const Network& network, const PathFlows& flows) {
  // The load is counted in whole units, arc by arc: nothing of it is trusted to doubles.
  std::vector<int128> units(network.arcs().size(), 0);
  for (size_t i = 0; i < flows.size(); ++i) {
    for (const uint32_t a : flows[i].arcs) units[a] += flows[i].amount;
  }
  Fraction greatest(0);
  for (size_t a = 0; a < units.size(); ++a) {
    if (units[a] > 0) greatest = std::max(greatest, Fraction(units[a], network.bandwidths()[a]));
  }
  return greatest / Fraction(flows.units_per_demand);
}

}  // namespace banyan::plan
