#include "banyan/plan/flow/concurrent_flow.h"

#include <string>

#include "banyan/base/error.h"
#include "banyan/plan/flow/exact_flow.h"
#include "banyan/plan/flow/path_balance.h"
#include "banyan/plan/graph/network_symmetry.h"

namespace banyan::plan {
namespace {

// What a linear program may have so that it is solved within some two seconds: columns with at most so many ranks, of
// at most so many sources, or otherwise.
constexpr uint32_t kFewTerminals = 32;
constexpr size_t kFewSources = 4;
constexpr size_t kMostColumnsOfFewTerminals = 40'000, kMostColumnsOfFewSources = 60'000, kMostColumns = 10'000;

bool may_be_solved_exactly(const Network& network, const Demand& demand, const NetworkSymmetry& symmetry) {
  const size_t columns = exact_flow_columns(network, demand, symmetry), arcs = network.arcs().size();
  if (columns <= kFewSources * arcs && columns <= kMostColumnsOfFewSources) return true;
  return columns <= (network.terminal_count() <= kFewTerminals ? kMostColumnsOfFewTerminals : kMostColumns);
}

void check_connected(const Network& network, const Fabric& fabric, const Demand& demand) {
  for (uint32_t s = 0; s < demand.terminals(); ++s) {
    if (demand.out_of(s) == 0) continue;
    std::vector<uint8_t> reached(network.vertex_count(), 0);
    for (const uint32_t v : network.reached_from({s})) reached[v] = 1;
    for (uint32_t t = 0; t < demand.terminals(); ++t) {
      if (reached[t] || demand.of(s, t) == 0) continue;
      throw invalid("rank '" + fabric.name(network.node_of(s)) + "' can only reach '" +
                    fabric.name(network.node_of(t)) + "' through ranks that do not take part; add those to --ranks");
    }
  }
}

// What the fabric declares, where the demand shares it.
NetworkSymmetry symmetry_of(const Network& network, const Fabric& fabric, const Demand& demand) {
  const std::optional<NetworkSymmetry> declared = NetworkSymmetry::of(network, fabric);
  if (!declared) return NetworkSymmetry(network);
  if (demand.is_uniform()) return *declared;
  for (size_t g = 0; g < declared->generators(); ++g) {
    for (uint32_t s = 0; s < demand.terminals(); ++s) {
      for (uint32_t t = 0; t < demand.terminals(); ++t) {
        if (demand.of(s, t) != demand.of(declared->vertex(g, s), declared->vertex(g, t)))
          return NetworkSymmetry(network);
      }
    }
  }
  return *declared;
}

}  // namespace

ConcurrentFlow solve_concurrent_flow(const Network& network, const Fabric& fabric, const Demand& demand,
                                     const FlowOptions& options) {
  if (demand.pairs() > kMostPairs) {
    throw Error(ErrorCode::unsupported, std::to_string(demand.pairs()) +
                                            " pairs of ranks have something to ship, the limit is " +
                                            std::to_string(kMostPairs));
  }
  // Both methods need a path for every pair.
  check_connected(network, fabric, demand);
  // Symmetries decide how large the program is. Either method says what it has proved.
  const NetworkSymmetry symmetry = symmetry_of(network, fabric, demand);
  if (may_be_solved_exactly(network, demand, symmetry)) return solve_exactly(network, demand, symmetry, options);
  return balance_paths(network, demand, options);
}

}  // namespace banyan::plan
