// Collectives of predicted jobs, carried out by the plans of one planner.
#pragma once

#include <memory>
#include <string>

#include "banyan/predict/collective/footprint.h"

namespace banyan::answer {

constexpr size_t kMostExchanging = 256;

// "rings" are the rings of collective libraries (predict::make_ring_plans). Any other name is that of a planner
// (plan/planner.h): it plans each group of ranks on the fabric, once for every kind of collective and root; what it
// does not plan goes as with rings. A planner of other kinds leaves all-to-alls of up to kMostExchanging ranks to the
// first planner that has them, where the busiest link of its plan has less to carry than when all go straight from rank
// to rank. In simulations by messages, plans move in the slices that choose_slice takes. Throws Error{invalid_input}
// with the known names.
std::unique_ptr<predict::CollectivePlans> make_plans_by(const std::string& algorithm, const Fabric& fabric);

}  // namespace banyan::answer
