#include "banyan/plan/flow/concurrent_flow.h"
#include <gtest/gtest.h>
#include <chrono>
#include "banyan/fabric/generate.h"
#include "banyan/plan/flow/exact_flow.h"
#include "banyan/plan/flow/path_balance.h"
namespace banyan::plan {
namespace {
TEST(Proto, All) {
  const char* spec = getenv("SPEC");
  const Fabric fabric = fabric::generate_fabric(spec ? spec : "torus:3x3@1GB/s");
  const Network network(fabric, Collective::make(fabric, {}), false);
  const Demand demand = Demand::uniform(network.terminal_count());
  auto symmetry = NetworkSymmetry::of(network, fabric);
  if (!symmetry || getenv("NOSYM")) symmetry = NetworkSymmetry(network);
  for (int m = 0; m < 2; ++m) {
    if (getenv("ONLY") && atoi(getenv("ONLY")) != m) continue;
    const clock_t begin = clock();
    const ConcurrentFlow flow = m == 0 ? solve_exactly(network, demand, *symmetry) : balance_paths(network, demand, {.gap = getenv("GAP") ? atof(getenv("GAP")) : 0.01});
    size_t hops = 0, longest = 0;
    for (size_t i = 0; i < flow.paths.size(); ++i) { hops += flow.paths[i].arcs.size(); longest = std::max(longest, flow.paths[i].arcs.size()); }
    std::vector<size_t> histogram(longest + 1, 0);
    for (size_t i = 0; i < flow.paths.size(); ++i) ++histogram[flow.paths[i].arcs.size()];
    for (size_t i = 0; i <= longest; ++i) printf("%zu:%zu ", i, histogram[i]);
    printf("%s bound f %.6f reached %.6f gap %.5f bound %s load %s parts %ld paths %zu of %zu pairs longest %zu, %.2f s\n", m == 0 ? "exact" : "balance", 1 / flow.bound.to_double(), 1 / flow.load.to_double(),
           flow.gap(), flow.bound.to_string().c_str(), flow.load.to_string().c_str(), long(flow.paths.units_per_demand), flow.paths.size(), size_t(demand.pairs()), longest, double(clock() - begin) / CLOCKS_PER_SEC);
  }
}
}  // namespace
}  // namespace banyan::plan
