#include "banyan/predict/simulation/what_if.h"

#include "banyan/fabric/generate.h"
#include "banyan/predict/collective/costed_plans.h"
#include "banyan/predict/cost/curve.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

// All 16 ranks of two boxes compute, then allreduce.
Job all_reduce_job(uint32_t ranks, Picoseconds work, uint64_t bytes) {
  Job::Builder builder("step");
  builder.add_name("x");
  std::vector<uint32_t> all;
  for (uint32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  const uint32_t group = builder.add_group("dp", all);
  builder.begin_program();
  builder.add_stream({.name = "main"});
  builder.add_node({.kind = job::NodeKind::compute, .duration = work});
  builder.add_node({.kind = job::NodeKind::collective, .bytes = bytes});
  for (uint32_t rank = 0; rank < ranks; ++rank) builder.add_rank(0, std::vector{group}, {});
  return std::move(builder).build();
}

constexpr LinkEfficiency kLinks{.scale_up = 0.8, .network = 0.5, .latency = microseconds(10)};

std::unique_ptr<CollectivePlans> plans_for(const Fabric& fabric, double latency) {
  LinkEfficiency links = kLinks;
  links.latency = Picoseconds(static_cast<int64_t>(static_cast<double>(links.latency.count()) * latency));
  return make_costed_plans(fabric, make_ring_plans(fabric, {}), links, {});
}

TEST(CostedPlans, LetLinksGiveWhatProtocolsReachOfThem) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:2");
  const std::vector<NodeId> all(fabric.ranks().begin(), fabric.ranks().end());
  const Job job = all_reduce_job(16, Picoseconds(0), 160'000'000);
  const auto plans = plans_for(fabric, 1);
  const Prediction prediction =
      simulate_jobs(fabric, {{.job = &job, .nodes = all}},
                    {.plans = plans.get(), .link_efficiency = link_efficiencies(fabric, kLinks, false)})
          .prediction;
  // Eight rings of 20 MB over cards of 25 GB/s at one half: 2 * 15/16 * 20 MB / 12.5 GB/s = 3 ms; the links of a box
  // carry seven times as much, at 240 GB/s: less. And four doublings of 10 us.
  EXPECT_NEAR(static_cast<double>(prediction.time.count()), 3.04e9, 1e3);
}

TEST(CostedPlans, PreferWhatWasMeasured) {
  const Fabric fabric = fabric::generate_fabric("star:4@1GB/s");
  const std::vector<NodeId> all(fabric.ranks().begin(), fabric.ranks().end());
  CollectiveCost cost;
  cost.pieces = {{.from = 0, .alpha = microseconds(3), .efficiency = 0.25},
                 {.from = 1'000'000, .alpha = microseconds(30), .efficiency = 0.5}};
  const auto plans = make_costed_plans(fabric, make_ring_plans(fabric, {}), kLinks, {cost});
  for (const auto& [bytes, expected] :
       {std::pair<uint64_t, double>{1000, 6e6 + 1.5 * 1000 / 0.25e9 * 1e12}, {4'000'000, 60e6 + 6e6 / 0.5e9 * 1e12}}) {
    const Job job = all_reduce_job(4, Picoseconds(0), bytes);
    const Prediction prediction =
        simulate_jobs(fabric, {{.job = &job, .nodes = all}}, {.plans = plans.get()}).prediction;
    EXPECT_NEAR(static_cast<double>(prediction.time.count()), expected, 1e3);
  }
}

// A curve of which nobody said what link it was measured on, played again on the boxes that it was measured on: in one
// box over NVSwitch, and over the eight cards of each of two boxes.
TEST(CostedPlans, GiveAMeasurementAgain) {
  struct Measured {
    const char* fabric;
    double alpha, busbw;
  };
  for (const Measured& measured : {Measured{"dgx-a100:1", 30e-6, 229.5e9}, {"dgx-a100:2", 60e-6, 160e9}}) {
    const Fabric fabric = fabric::generate_fabric(measured.fabric);
    const std::vector<NodeId> all(fabric.ranks().begin(), fabric.ranks().end());
    const auto ranks = static_cast<uint32_t>(all.size());
    const double share = busbw_factor(CollectiveKind::all_reduce, ranks);
    std::vector<CollectivePoint> points;
    for (uint64_t mib = 1; mib <= 256; ++mib) {
      points.push_back({mib << 20, measured.alpha + share * static_cast<double>(mib << 20) / measured.busbw});
    }
    const CollectiveCost cost =
        make_collective_cost(fit_curve(points).curve, {.ranks = ranks, .link = {}, .source = "a test"});
    const std::string file = format_collective_costs(std::vector{cost});
    const auto plans = make_costed_plans(fabric, make_ring_plans(fabric, {}), kLinks, parse_collective_costs(file));
    for (const size_t i : {0, 99, 255}) {
      const Job job = all_reduce_job(ranks, Picoseconds(0), points[i].bytes);
      const Picoseconds time =
          simulate_jobs(fabric, {{.job = &job, .nodes = all}}, {.plans = plans.get()}).prediction.time;
      EXPECT_NEAR(static_cast<double>(time.count()) * 1e-12 / points[i].seconds, 1, 0.005) << measured.fabric;
    }
  }
}

// Twice the speed of devices helps only what devices do: not the host's threads, not launches.
TEST(WhatIf, LeavesTheHostAsItIs) {
  const Fabric fabric = fabric::generate_fabric("star:2@1GB/s");
  Job::Builder builder("step");
  builder.add_name("x");
  builder.begin_program();
  builder.add_stream({.name = "main"});
  builder.add_node({.kind = job::NodeKind::host, .duration = milliseconds(6)});
  builder.add_node({.kind = job::NodeKind::compute, .duration = milliseconds(2), .fixed = milliseconds(2)});
  builder.add_node({.kind = job::NodeKind::compute, .duration = milliseconds(2), .fixed = milliseconds(1)});
  builder.add_rank(0, {}, {});
  const Job job = std::move(builder).build();
  const std::vector<WhatIf> answers =
      what_if(fabric, {{.job = &job, .nodes = {fabric.ranks()[0]}}}, {}, plans_for, milliseconds(10));
  EXPECT_EQ(answers[0].resource, "the speed of computation");
  EXPECT_EQ(answers[0].time, Picoseconds(std::chrono::microseconds(9500)));
  const auto plans = plans_for(fabric, 1);
  const PredictedRank rank =
      simulate_jobs(fabric, {{.job = &job, .nodes = {fabric.ranks()[0]}}}, {.plans = plans.get()}).prediction.ranks[0];
  EXPECT_EQ(rank.host, Picoseconds(milliseconds(6)));
  EXPECT_EQ(rank.compute, Picoseconds(milliseconds(4)));
}

TEST(WhatIf, NamesTheResourceThatHelps) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:2");
  const std::vector<NodeId> all(fabric.ranks().begin(), fabric.ranks().end());
  const Job job = all_reduce_job(16, milliseconds(1), 160'000'000);
  // 1 ms of work, 3 ms on the cards, 0.04 ms of latency.
  const std::vector<WhatIf> answers =
      what_if(fabric, {{.job = &job, .nodes = all}}, {.link_efficiency = link_efficiencies(fabric, kLinks, false)},
              plans_for, microseconds(4040));
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].resource, "the bandwidth of links between boxes");
  EXPECT_NEAR(answers[0].gain, 1.5 / 4.04, 1e-6);
  EXPECT_EQ(answers[1].resource, "the speed of computation");
  EXPECT_NEAR(answers[1].gain, 0.5 / 4.04, 1e-6);
  EXPECT_NEAR(answers[2].gain, 0.02 / 4.04, 1e-6);
  EXPECT_NEAR(answers[3].gain, 0, 1e-9);
}

}  // namespace
}  // namespace banyan::predict
