// Times bound + forest + verification of an allgather on the fabrics of docs/performance.md, and checks every answer it
// times: the verifier accepts the schedule, its time is the bound as a fraction, the bound is the known optimum, and
// the witness holds. A wrong answer is an error, not a figure. Counters: algbw in GB/s, tree heights, trees.
#include <benchmark/benchmark.h>

#include <cmath>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"

namespace banyan::plan {
namespace {

struct Case {
  const char* name;
  Fabric (*make)();
  double optimum_gigabytes;  // of the published closed forms; 0 where only the bound is known
  uint32_t max_height;       // what is to be reached; 0 where it is only reported
};

// Eight H100 boxes, one NIC failed and two degraded: no symmetry left.
Fabric make_damaged_h100() {
  std::string text;
  for (int gpu = 0; gpu < 64; ++gpu) {
    const std::string name = "gpu" + std::to_string(gpu);
    text += name + " <-> nvsw" + std::to_string(gpu / 8) + " 450 GB/s;";
    const char* nic = gpu == 17 ? "25 GB/s" : gpu == 42 ? "40 GB/s" : "50 GB/s";
    if (gpu != 3) text += name + " <-> sw " + nic + ";";
  }
  return fabric::parse_fabric_text(text);
}

const Case kCases[] = {
    {"dgx-a100:8", [] { return fabric::generate_fabric("dgx-a100:8"); }, 228.571429, 3},
    {"dgx-h100:8", [] { return fabric::generate_fabric("dgx-h100:8"); }, 457.142857, 3},
    {"dgx-h100:16", [] { return fabric::generate_fabric("dgx-h100:16"); }, 426.666667, 3},
    {"dgx-h100:128", [] { return fabric::generate_fabric("dgx-h100:128"); }, 403.149606, 3},
    {"mi250:4", [] { return fabric::generate_fabric("mi250:4"); }, 341.333333, 10},
    {"mi250:8", [] { return fabric::generate_fabric("mi250:8"); }, 292.571429, 12},
    {"torus:8x8@1GB/s", [] { return fabric::generate_fabric("torus:8x8@1GB/s"); }, 4.063492, 12},
    {"torus:8x8x8@1GB/s", [] { return fabric::generate_fabric("torus:8x8x8@1GB/s"); }, 0, 20},
    {"dgx-h100:8 damaged", make_damaged_h100, 0, 0},
    {"random:n=64,links=256", [] { return fabric::generate_fabric("random:n=64,links=256,seed=1"); }, 0, 0},
};

void plan_allgather(benchmark::State& state) {
  const Case& test = kCases[state.range(0)];
  state.SetLabel(test.name);
  const Fabric fabric = test.make();
  const Collective allgather = Collective::make(fabric, {});
  for (auto _ : state) {
    const ForestPlan plan = plan_forest(fabric, allgather);
    const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
    if (!verdict.valid) return state.SkipWithError(verdict.reason.c_str());
    if (verdict.seconds_per_byte != plan.bound.seconds_per_byte) return state.SkipWithError("slower than the bound");
    if (!holds(plan.bound.witness, fabric, allgather)) return state.SkipWithError("the witness does not hold");
    const double algbw = 1e-9 / verdict.seconds_per_byte.to_double();
    if (test.optimum_gigabytes > 0 && std::abs(algbw - test.optimum_gigabytes) > 1e-5)
      return state.SkipWithError("not the known optimum");
    const schedule::Heights height = heights(plan.schedule);
    state.counters["algbw_GBps"] = algbw;
    state.counters["height_max"] = height.max;
    state.counters["height_mean"] = height.mean;
    state.counters["trees"] = static_cast<double>(plan.schedule.chunk_count());
    if (test.max_height > 0) state.counters["height_target"] = test.max_height;
  }
}
BENCHMARK(plan_allgather)
    ->DenseRange(0, std::size(kCases) - 1)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->Repetitions(5)
    ->ReportAggregatesOnly();

void bound_of_1024_ranks(benchmark::State& state) {
  const Fabric fabric = fabric::generate_fabric("dgx-h100:128");
  const Collective allgather = Collective::make(fabric, {});
  for (auto _ : state) {
    const Bound bound = compute_bound(fabric, allgather);
    if (!holds(bound.witness, fabric, allgather)) return state.SkipWithError("the witness does not hold");
    if (bound.seconds_per_byte != Fraction(127, 51'200'000'000'000))
      return state.SkipWithError("not the known optimum");
  }
}
BENCHMARK(bound_of_1024_ranks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace banyan::plan

BENCHMARK_MAIN();
