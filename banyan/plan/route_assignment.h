// Route assignment: which of several routes each flow takes, so that no link is loaded more than it must be.
//
// The load of a link is the demand that is placed on it over its capacity. Wanted is one route for each flow such that
// the loads of all links, sorted from the greatest down, are lexicographically least. With two links that is to divide
// numbers into two equal sums, so the best is not always found in time (NP-hard).
//
//   1. One flow after the other, those of most demand first, takes the route that leaves the least loads. If all
//      capacities are alike, that is the "least excess demand", demand already placed less capacity, of FFA (MCCS,
//      SIGCOMM'24); if they differ, a load of 1.1 on a thin link is worse than one of 1.05 on a thick one, whatever
//      their excess.
//   2. While that lowers the loads, single flows change their routes, or two of them at once. FFA does not do this.
//
// Routes that flows have at present are kept in step 1. They change in step 2 only where the greatest load among the
// links concerned falls by `least_gain` of itself, so that a flow that comes or goes does not move the others for
// little.
//
// Ties go to the flow, and to the route, with the lower number: equal questions have equal answers.
//
// Step 1 takes O(flows * routes * links of a route); so does each round of step 2. Pairs of flows are looked at where
// there are at most kMostInPairs flows. Step 2 ends after kMostTries changes that it has looked at, so that the whole
// takes well below a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace banyan::plan {

struct RoutedFlow {
  double demand = 0;                          // in the unit of the capacities; not negative
  std::vector<std::vector<uint32_t>> routes;  // at least one; the links of each, none twice
  std::optional<uint32_t> present = {};       // one of them
};

struct RouteOptions {
  double least_gain = 0.05;
};

constexpr size_t kMostTries = 300'000;
constexpr size_t kMostInPairs = 64;

// The number of each flow's route. `capacities`, above zero, are by link.
std::vector<uint32_t> assign_routes(std::span<const double> capacities, std::span<const RoutedFlow> flows,
                                    const RouteOptions& options = {});

// The load of each link, when each flow takes the route that `taken` says.
std::vector<double> route_loads(std::span<const double> capacities, std::span<const RoutedFlow> flows,
                                std::span<const uint32_t> taken);
// True if the loads `a` of some links are less than `b`, in the order above, by more than rounding.
bool are_less(std::vector<double> a, std::vector<double> b);

}  // namespace banyan::plan
