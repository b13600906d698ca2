// Collectives of jobs by our own planners: --algorithm forest, ring, double-binary-tree, ...
#pragma once

#include <memory>
#include <string>

#include "banyan/predict/collective/footprint.h"

namespace banyan::app {

// "rings" are those of collective libraries (make_ring_plans); "forest" and the baselines' names plan each group of
// ranks on the fabric, once for every kind of collective and root. What they do not plan (all-to-all, gather, scatter,
// barrier) goes as with rings. By messages, they move in the slices that choose_slice takes. Throws
// Error{invalid_input} with the known names.
std::unique_ptr<predict::CollectivePlans> make_plans_by(const std::string& algorithm, const Fabric& fabric);

}  // namespace banyan::app
