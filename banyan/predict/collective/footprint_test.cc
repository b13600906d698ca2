#include "banyan/predict/collective/footprint.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

constexpr RingCosts kFree{.launch = Picoseconds(0), .step_inside = Picoseconds(0), .step_between = Picoseconds(0)};

std::map<std::string, double> by_name(const Fabric& fabric, const Footprint& footprint) {
  std::map<std::string, double> bytes;
  for (const FluidHop& hop : footprint.hops) {
    const Link& link = fabric.link(LinkId{hop.link});
    bytes[fabric.name(link.from) + ">" + fabric.name(link.to)] += hop.coefficient;
  }
  return bytes;
}

std::vector<NodeId> all(const Fabric& fabric) { return {fabric.ranks().begin(), fabric.ranks().end()}; }

TEST(RingPlans, PutTheBytesOfARingOnEveryLinkOfABox) {
  const Fabric fabric = fabric::generate_fabric("star:4@1GB/s");
  const auto plans = make_ring_plans(fabric, kFree);
  const std::vector<NodeId> ranks = all(fabric);
  const std::map<CollectiveKind, double> each{{CollectiveKind::all_reduce, 2 * 0.75},
                                              {CollectiveKind::all_gather, 0.75},
                                              {CollectiveKind::reduce_scatter, 0.75},
                                              {CollectiveKind::all_to_all, 0.75}};
  for (const auto& [kind, share] : each) {
    const Footprint footprint = plans->footprint({.kind = kind, .members = ranks, .bytes = 1'000'000});
    EXPECT_EQ(footprint.hops.size(), 8u);
    for (const FluidHop& hop : footprint.hops) EXPECT_DOUBLE_EQ(hop.coefficient, share * 1e6) << to_string(kind);
  }
}

TEST(RingPlans, BeginAndEndChainsAtTheRoot) {
  const Fabric fabric = fabric::generate_fabric("ring:4@1GB/s");
  const auto plans = make_ring_plans(fabric, kFree);
  const std::vector<NodeId> ranks = all(fabric);
  const auto broadcast =
      by_name(fabric, plans->footprint({.kind = CollectiveKind::broadcast, .members = ranks, .root = 2, .bytes = 100}));
  // Half of the bytes go either way round.
  EXPECT_EQ(broadcast, (std::map<std::string, double>{{"gpu2>gpu3", 50},
                                                      {"gpu3>gpu0", 50},
                                                      {"gpu0>gpu1", 50},
                                                      {"gpu2>gpu1", 50},
                                                      {"gpu1>gpu0", 50},
                                                      {"gpu0>gpu3", 50}}));
  const auto reduce =
      by_name(fabric, plans->footprint({.kind = CollectiveKind::reduce, .members = ranks, .root = 2, .bytes = 100}));
  EXPECT_EQ(reduce, (std::map<std::string, double>{{"gpu3>gpu0", 50},
                                                   {"gpu0>gpu1", 50},
                                                   {"gpu1>gpu2", 50},
                                                   {"gpu1>gpu0", 50},
                                                   {"gpu0>gpu3", 50},
                                                   {"gpu3>gpu2", 50}}));
}

TEST(RingPlans, UseEveryNetworkCardOfABoxEvenly) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:4");
  const auto plans = make_ring_plans(fabric, kFree);
  const auto bytes = by_name(fabric, plans->footprint({.members = all(fabric), .bytes = 32'000'000}));
  // Eight rings of 4 MB, each entering and leaving every box once: 2 * 31/32 * 4 MB a card, either way.
  size_t cards = 0;
  for (const auto& [link, load] : bytes) {
    if (link.find("ib") == std::string::npos) continue;
    ++cards;
    EXPECT_NEAR(load, 2 * 31 / 32.0 * 4e6, 1) << link;
  }
  EXPECT_EQ(cards, 64u);
}

TEST(RingPlans, KeepToRails) {
  // A member leaves a box where the next is entered, so no byte has to change rails but where the ring closes oddly.
  const Fabric fabric = fabric::generate_fabric("rail:boxes=4,gpus=4");
  const auto plans = make_ring_plans(fabric, kFree);
  const Footprint footprint = plans->footprint({.members = all(fabric), .bytes = 1'000'000});
  for (const FluidHop& hop : footprint.hops) {
    const Link& link = fabric.link(LinkId{hop.link});
    EXPECT_EQ(fabric.name(link.to).find("spine"), std::string::npos) << fabric.name(link.to);
  }
}

TEST(RingPlans, TakeTreesWhereStepsAreWhatCosts) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:8");
  const auto plans = make_ring_plans(
      fabric, {.launch = Picoseconds(100), .step_inside = Picoseconds(1), .step_between = Picoseconds(10)});
  // In 8 boxes of 8: 3 levels inside, 3 between, up and down.
  EXPECT_EQ(plans->footprint({.members = all(fabric), .bytes = 8}).latency, Picoseconds(100 + 2 * (3 + 30)));
  EXPECT_EQ(plans->footprint({.kind = CollectiveKind::all_gather, .members = all(fabric), .bytes = 64}).latency,
            Picoseconds(100 + 56 + 80));
}

TEST(Footprint, OfAScheduleIsWhatItsTreesCarry) {
  const Fabric fabric = fabric::generate_fabric("mi250:1");
  const Schedule schedule = plan::plan_forest(fabric, Collective::make(fabric, {})).schedule;
  const Footprint footprint = footprint_of(schedule, 1 << 20, Picoseconds(7));
  EXPECT_EQ(footprint.latency, Picoseconds(7 * static_cast<int64_t>(heights(schedule).max)));
  double busiest = 0;
  for (const FluidHop& hop : footprint.hops) {
    busiest =
        std::max(busiest, hop.coefficient / static_cast<double>(fabric.links()[hop.link].bandwidth.bytes_per_second()));
  }
  EXPECT_NEAR(busiest, seconds_per_byte(schedule).to_double() * (1 << 20), 1e-12);
}

}  // namespace
}  // namespace banyan::predict
