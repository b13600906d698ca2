// Times TwoTierPlanner, and compares the total time of its plans with the fluid bound and with what libraries do
// without a plan, in the model of two_tier_time.h. Plans are made of many matrices in turn, so that no answer is in a
// cache; a plan whose stages do not sum to the largest row or column sum, or that beats the bound, is an error.
//
// Traffic: `skew` -1 is uniformly random, 0 is all equal, s > 0 has entries by Zipf's law with exponent s at random
// places (test_traffic.h). 1 GB for each rank.
//   pairwise    in step i rank r sends to rank r + i; a step is as long as its longest message
//   spread_out  all messages at once; every NIC and every in-box link shares its rate max-min fairly, and incast costs
//               no more than that
#include <benchmark/benchmark.h>

#include <algorithm>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/routing.h"
#include "banyan/plan/two_tier/test_traffic.h"
#include "banyan/plan/two_tier/two_tier_schedule.h"
#include "banyan/predict/collective/schedule_simulation.h"
#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/two_tier_time.h"

namespace banyan::plan {
namespace {

constexpr uint32_t kGpus = 8;
constexpr uint64_t kPerRank = 1'000'000'000;

std::vector<Traffic> matrices(uint32_t ranks, double skew, size_t count) {
  std::vector<Traffic> made;
  for (size_t seed = 1; seed <= count; ++seed)
    made.push_back(skew < 0 ? random_traffic(ranks, 2 * kPerRank / ranks, seed)
                            : zipf_traffic(ranks, skew, kPerRank, seed));
  return made;
}

void plan_time(benchmark::State& state) {
  const TwoTierShape shape{static_cast<uint32_t>(state.range(0)) / kGpus, kGpus};
  const double skew = static_cast<double>(state.range(1)) / 10;
  state.SetLabel(std::to_string(shape.ranks()) + " GPUs, skew " + std::to_string(skew).substr(0, 4));
  TwoTierPlanner planner(shape);
  const std::vector<Traffic> traffic = matrices(shape.ranks(), skew, shape.boxes > 8 ? 8 : 64);
  size_t plans = 0, stages = 0;
  for (auto _ : state) {
    const TwoTierPlan& plan = planner.plan(traffic[plans++ % traffic.size()]);
    benchmark::DoNotOptimize(plan.stage_count());
    stages += plan.stage_count();
  }
  for (const Traffic& of : traffic) {
    const TwoTierPlan& plan = planner.plan(of);
    uint64_t sum = 0;
    for (size_t stage = 0; stage < plan.stage_count(); ++stage) sum += plan.stage_length(stage);
    if (sum != plan.largest_sum()) return state.SkipWithError("the stages are longer than they must be");
  }
  state.counters["stages"] = static_cast<double>(stages) / static_cast<double>(plans);
}
BENCHMARK(plan_time)->ArgsProduct({{16, 32, 64, 96, 320}, {-10, 0, 3, 6, 9}})->Unit(benchmark::kMicrosecond);

double seconds(uint64_t bytes, Bandwidth rate) {
  return static_cast<double>(bytes) / static_cast<double>(rate.bytes_per_second());
}

double pairwise(TwoTierShape shape, const Traffic& traffic, TwoTierRates rates) {
  const uint32_t ranks = shape.ranks();
  double sum = 0;
  for (uint32_t step = 1; step < ranks; ++step) {
    double longest = 0;
    for (uint32_t from = 0; from < ranks; ++from) {
      const uint32_t to = (from + step) % ranks;
      const Bandwidth rate = from / shape.gpus == to / shape.gpus ? rates.inside : rates.between;
      longest = std::max(longest, seconds(traffic[from * ranks + to], rate));
    }
    sum += longest;
  }
  return sum;
}

double spread_out(TwoTierShape shape, const Traffic& traffic, TwoTierRates rates) {
  const uint32_t ranks = shape.ranks();
  std::vector<double> capacities;  // by tier, direction and rank
  for (const Bandwidth rate : {rates.inside, rates.inside, rates.between, rates.between})
    capacities.insert(capacities.end(), ranks, static_cast<double>(rate.bytes_per_second()));
  predict::FluidNetwork network(capacities, {});
  for (uint32_t from = 0; from < ranks; ++from)
    for (uint32_t to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const uint32_t tier = from / shape.gpus == to / shape.gpus ? 0 : 2 * ranks;
      const predict::FluidHop hops[] = {{.link = tier + from}, {.link = tier + ranks + to}};
      network.start({.hops = hops, .bytes = static_cast<double>(traffic[from * ranks + to])});
    }
  while (network.flow_count() > 0) network.advance(network.next());
  return 1e-12 * static_cast<double>(network.now().count());
}

void total_time(benchmark::State& state) {
  const TwoTierShape shape{static_cast<uint32_t>(state.range(0)) / kGpus, kGpus};
  const double skew = static_cast<double>(state.range(1)) / 10;
  const bool mi300x = state.range(2) == 1;
  const TwoTierRates rates{Bandwidth::gigabytes_per_second(mi300x ? 448 : 450),
                           Bandwidth::gigabits_per_second(mi300x ? 100 : 400)};
  state.SetLabel(std::to_string(shape.ranks()) + " GPUs, skew " + std::to_string(skew).substr(0, 4) +
                 (mi300x ? ", 448 / 12.5 GB/s" : ", 450 / 50 GB/s"));
  TwoTierPlanner planner(shape);
  const std::vector<Traffic> traffic = matrices(shape.ranks(), skew, 10);
  for (auto _ : state) {
    double total = 0, bound = 0, worst = 0, by_pairs = 0, at_once = 0;
    for (const Traffic& of : traffic) {
      const double takes = two_tier_time(planner.plan(of), of, rates).seconds;
      const double least = fluid_bound(shape, of, rates);
      if (takes < least) return state.SkipWithError("quicker than the bound");
      total += takes;
      bound += least;
      worst = std::max(worst, takes / least);
      by_pairs += pairwise(shape, of, rates);
      at_once += spread_out(shape, of, rates);
    }
    const auto count = static_cast<double>(traffic.size());
    state.counters["bound_ms"] = 1e3 * bound / count;
    state.counters["total_ms"] = 1e3 * total / count;
    state.counters["worst_over_bound"] = worst;
    state.counters["pairwise_over_total"] = by_pairs / total;
    state.counters["spread_out_over_total"] = at_once / total;
  }
}
BENCHMARK(total_time)->ArgsProduct({{32, 64}, {-10, 0, 3, 6, 9}, {0, 1}})->Iterations(1)->Unit(benchmark::kMillisecond);

// Every pair by one hop along the first best route, all at once.
Schedule direct_schedule(const Fabric& fabric, const Collective& collective) {
  Schedule::Builder builder(fabric, collective);
  fabric::Routing routes(fabric);
  const auto ranks = collective.participants();
  for (size_t from = 0; from < ranks.size(); ++from)
    for (size_t to = 0; to < ranks.size(); ++to) {
      if (from == to || collective.traffic(from, to) == 0) continue;
      std::vector<LinkId> way;
      routes.find_first(ranks[from], ranks[to], way);
      const RouteId hop = builder.add_route(way);
      builder.add_chunk({.root = ranks[from], .units = collective.traffic(from, to), .out_tree = {&hop, 1}});
    }
  return std::move(builder).build();
}

// The schedules on dgx-h100:4 in the simulator of predictions, which knows nothing of stages: slices of 8 MiB, 5 us a
// message. The bound is the fluid one.
void simulated(benchmark::State& state) {
  const double skew = static_cast<double>(state.range(0)) / 10;
  state.SetLabel("dgx-h100:4, skew " + std::to_string(skew).substr(0, 4));
  const Fabric fabric = fabric::generate_fabric("dgx-h100:4");
  const Traffic traffic = matrices(32, skew, 1).front();
  const Collective collective = Collective::make(fabric, {.kind = CollectiveKind::all_to_all, .traffic = traffic});
  uint64_t all = 0;
  for (const uint64_t bytes : traffic) all += bytes;
  const auto milliseconds = [&](const Schedule& schedule) {
    const predict::ScheduleSimulation simulation =
        predict::simulate_schedule(schedule, {.total = Bytes(all / 32), .slice = Bytes(8 << 20)});
    return 1e-9 * static_cast<double>(simulation.time.count());
  };
  for (auto _ : state) {
    const Schedule schedule = two_tier_schedule(fabric, collective);
    const schedule::Verdict verdict = verify(schedule);
    if (!verdict.valid) return state.SkipWithError(verdict.reason.c_str());
    const double bound = 1e3 * fluid_bound({4, kGpus}, traffic,
                                           {Bandwidth::gigabytes_per_second(450), Bandwidth::gigabytes_per_second(50)});
    const double takes = milliseconds(schedule);
    if (takes < bound) return state.SkipWithError("quicker than the bound");
    state.counters["bound_ms"] = bound;
    state.counters["two_tier_ms"] = takes;
    state.counters["over_bound"] = takes / bound;
    state.counters["direct_ms"] = milliseconds(direct_schedule(fabric, collective));
  }
}
BENCHMARK(simulated)->Arg(-10)->Arg(0)->Arg(3)->Arg(6)->Arg(9)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace banyan::plan

BENCHMARK_MAIN();
