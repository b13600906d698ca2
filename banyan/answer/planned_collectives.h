// Collectives of predicted jobs, carried out by the plans of one planner.
#pragma once

#include <memory>
#include <string>

#include "banyan/predict/collective/footprint.h"

namespace banyan::answer {

// "rings" are the rings of collective libraries (predict::make_ring_plans). Any other name is that of a planner
// (plan/planner.h): it plans each group of ranks on the fabric, once for every kind of collective and root; all-to-all,
// gather, scatter and barrier, which no planner plans, go as with rings. By messages, plans move in the slices that
// choose_slice takes. Throws Error{invalid_input} with the known names.
std::unique_ptr<predict::CollectivePlans> make_plans_by(const std::string& algorithm, const Fabric& fabric);

}  // namespace banyan::answer
