// From what solvers find, in doubles, to paths with whole shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/plan/flow/demand.h"
#include "banyan/plan/flow/path_flows.h"

namespace banyan::plan {

// Paths as solvers find them: amounts in units of demand.
using RoughPaths = PathList<double>;

// Takes the flow of one source apart into paths to each target, and adds them to `paths`: near targets first, short
// paths first, and a path that carries all that is left for a target where there is one. `flow`, by arc, ships
// `amounts`, by terminal. With a `noise` of zero all are whole numbers below 2^53, and stay so; otherwise they may be
// wrong by that part of an amount. Amounts below `least` of demand are not looked for in the flow: they take the path
// that is shortest by `lengths`, and so does all that the flow does not carry. Cycles in the flow are left out.
// O(targets * arcs), and a search for each further path.
struct FlowNoise {
  double noise = 0, least = 0;
  std::span<const uint64_t> lengths = {};  // by arc; needed unless both are zero
};
void take_apart(const Network& network, uint32_t source, std::vector<double> flow, std::span<const double> amounts,
                const FlowNoise& noise, RoughPaths& paths);

// Classes of arcs for rounding: arcs of a class are loaded alike, each crossing counts on all of them.
struct FlowArcs {
  std::span<const uint32_t> of;       // by arc
  std::span<const double> bandwidth;  // by class
};

// Rounds the amounts of each pair to whole shares, with as few shares to a unit of demand, a power of two, as keep the
// greatest load within `loss` of what it is unrounded. `paths` of a pair stand together; their amounts sum to its
// demand, up to the rounding of doubles.
constexpr double kLossOfRounding = 0.0005, kLossOfExactRounding = 1e-7;  // the latter for uneven demand
PathFlows round_amounts(const RoughPaths& paths, const Demand& demand, const FlowArcs& classes, double loss);

}  // namespace banyan::plan
