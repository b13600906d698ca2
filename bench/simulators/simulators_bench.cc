// Ourselves on the cases of cases.h, exact and with windows, against a plain solver that solves everything again; a
// ring of 1,024 folded against unfolded. Every answer is checked; the program aborts on a wrong one.
#include <benchmark/benchmark.h>

#include <cmath>

#include "banyan/base/check.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/baselines/baselines.h"
#include "banyan/predict/collective/schedule_simulation.h"
#include "bench/simulators/cases.h"

namespace banyan::bench {
namespace {

// Exact ones to rounding, others to what the issue allows.
void expect_near(double value, double expected, double most) {
  CHECK(std::abs(value - expected) <= most * expected) << value << " instead of " << expected;
}

const Answer& plain_pairs() {
  static const Answer answer = plain(random_pairs());
  return answer;
}
const Answer& exact_all_to_all() {
  static const Answer answer = ours(all_to_all(), Picoseconds(0));
  return answer;
}

void pairs_plain(benchmark::State& state) {
  for (auto _ : state) state.SetIterationTime(plain_pairs().cpu_seconds);
}
BENCHMARK(pairs_plain)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

void pairs(benchmark::State& state) {
  const Case what = random_pairs();
  const Picoseconds window = std::chrono::microseconds(state.range(0));
  for (auto _ : state) {
    const Answer answer = ours(what, window);
    state.SetIterationTime(answer.cpu_seconds);
    expect_near(answer.makespan, plain_pairs().makespan, state.range(0) == 0 ? 1e-9 : 5e-3);
    expect_near(answer.mean_end, plain_pairs().mean_end, state.range(0) == 0 ? 1e-9 : 5e-3);
    state.counters["bytes off %"] = 100 * answer.of_all;
    state.counters["makespan off %"] = 100 * std::abs(answer.makespan / plain_pairs().makespan - 1);
  }
}
BENCHMARK(pairs)->ArgName("window_us")->Arg(0)->Arg(1)->Arg(10)->UseManualTime()->Unit(benchmark::kMillisecond);

void all_at_once(benchmark::State& state) {
  const Case what = all_to_all();
  for (auto _ : state) {
    const Answer answer =
        state.range(0) == 0 ? exact_all_to_all() : ours(what, std::chrono::microseconds(state.range(0)));
    state.SetIterationTime(answer.cpu_seconds);
    expect_near(answer.makespan, exact_all_to_all().makespan, 5e-3);
    expect_near(answer.mean_end, exact_all_to_all().mean_end, 5e-3);
    state.counters["bytes off %"] = 100 * answer.of_all;
    state.counters["makespan off %"] = 100 * std::abs(answer.makespan / exact_all_to_all().makespan - 1);
  }
}
BENCHMARK(all_at_once)
    ->ArgName("window_us")
    ->Arg(0)
    ->Arg(10)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void shift_phases(benchmark::State& state) {
  const Case what = shifts();
  for (auto _ : state) state.SetIterationTime(ours(what, Picoseconds(0)).cpu_seconds);
}
BENCHMARK(shift_phases)->UseManualTime()->Unit(benchmark::kMillisecond);

void ring_of_1024(benchmark::State& state) {
  const Fabric fabric = fabric::generate_fabric("star:1024");
  const Schedule schedule =
      plan_baseline(plan::Baseline::ring, fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce}));
  predict::ScheduleSimulationOptions options{.total = Bytes(1 << 30), .slice = Bytes(1 << 30)};
  options.fold = false;
  static const Picoseconds expected = simulate_schedule(schedule, options).time;
  options.fold = state.range(0) != 0;
  for (auto _ : state) {
    const predict::ScheduleSimulation simulation = simulate_schedule(schedule, options);
    CHECK(simulation.time == expected) << simulation.time.count() << " ps instead of " << expected.count();
    CHECK(simulation.messages == 2'095'104) << simulation.messages;
  }
}
BENCHMARK(ring_of_1024)->ArgName("folded")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace banyan::bench

BENCHMARK_MAIN();
