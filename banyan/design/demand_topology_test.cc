#include "banyan/design/demand_topology.h"

#include "banyan/design/test_topologies.h"
#include "banyan/testing/test.h"

namespace banyan::design {
namespace {

DemandSet demands_of(const std::string& csv, Fraction uncertainty = Fraction(0)) {
  return {.matrices = {parse_demand_csv(csv, "d.csv")}, .uncertainty = uncertainty};
}

std::vector<double> as_real(const std::vector<uint32_t>& links) { return {links.begin(), links.end()}; }

void expect_within_ports(const DemandTopology& topology, size_t n, const TopologyRequest& request) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t out = 0, in = 0;
    EXPECT_EQ(topology.links[i * n + i], 0u);
    for (size_t j = 0; j < n; ++j) {
      out += topology.links[i * n + j];
      in += topology.links[j * n + i];
      if (request.wiring == Wiring::cables) {
        EXPECT_EQ(topology.links[i * n + j], topology.links[j * n + i]);
      }
    }
    EXPECT_LE(out, request.ports);
    EXPECT_LE(in, request.ports);
  }
}

// The least worst load over all topologies and many thresholds, by code that shares nothing with what is tested.
double best_of_all(const DemandMatrix& demand, const Ports& ports) {
  const std::vector<double> amounts = in_links(demand, kUnit);
  double least = 1e300;
  for_all_topologies(ports, true, [&](const std::vector<uint32_t>& links) {
    const std::vector<double> real = as_real(links);
    std::vector<double> thresholds{0};
    for (size_t e = 0; e < real.size(); ++e) {
      if (real[e] > 0) thresholds.push_back(amounts[e] / real[e]);
    }
    const double most = *std::max_element(thresholds.begin(), thresholds.end());
    for (int step = 1; step < 8; ++step) thresholds.push_back(most * step / 8);
    for (const double threshold : thresholds) {
      least = std::min(least, WayByWay(real, ports.endpoints, threshold).worst(amounts));
    }
  });
  return least;
}

struct Size {
  size_t endpoints;
  uint32_t ports;
  Wiring wiring;
};
class SmallTopologies : public ::testing::TestWithParam<Size> {};

TEST_P(SmallTopologies, AreTheBestOfAll) {
  const auto [n, each, wiring] = GetParam();
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const DemandSet demands{.matrices = {random_demand(random, n)}, .uncertainty = Fraction(0)};
    const TopologyRequest request{.ports = each, .bandwidth = kUnit, .wiring = wiring};
    const double best = best_of_all(demands.matrices[0], {.endpoints = n, .each = each, .wiring = wiring});
    if (best == 1e300) {
      EXPECT_THAT(testing::error_of([&] { choose_topology(demands, request); }), HasSubstr("more ports"));
      continue;
    }
    const DemandTopology found = choose_topology(demands, request);
    expect_within_ports(found, n, request);
    EXPECT_LE(found.worst, best * (1 + 1e-6));
    EXPECT_LE(found.bound.to_double(), found.worst * (1 + 1e-12));
    EXPECT_NEAR(WayByWay(as_real(found.links), n, found.threshold).worst(in_links(demands.matrices[0], kUnit)),
                found.worst, 1e-9 * found.worst);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Of, SmallTopologies,
    ::testing::Values(Size{2, 3, Wiring::cables}, Size{3, 2, Wiring::cables}, Size{3, 3, Wiring::cables},
                      Size{4, 1, Wiring::cables}, Size{4, 2, Wiring::cables}, Size{4, 3, Wiring::cables},
                      Size{5, 2, Wiring::cables}, Size{5, 3, Wiring::cables}, Size{3, 1, Wiring::circuits},
                      Size{3, 3, Wiring::circuits}, Size{4, 1, Wiring::circuits}, Size{4, 2, Wiring::circuits},
                      Size{4, 3, Wiring::circuits}, Size{5, 1, Wiring::circuits}, Size{5, 2, Wiring::circuits}),
    [](const auto& size) {
      return std::to_string(size.param.endpoints) + "EndpointsOf" + std::to_string(size.param.ports) +
             (size.param.wiring == Wiring::cables ? "Cables" : "Circuits");
    });

// Heavy pairs, and light traffic between all: the heavy ones get more links, the light traffic still has ways.
TEST(DemandTopology, GivesHeavyPairsMoreLinks) {
  const DemandSet demands =
      demands_of("0,90,1,1,1,1\n90,0,1,1,1,1\n1,1,0,90,1,1\n1,1,90,0,1,1\n1,1,1,1,0,90\n1,1,1,1,90,0");
  const DemandTopology found = choose_topology(demands, {.ports = 4, .bandwidth = kUnit});
  for (const size_t pair : {0 * 6 + 1, 2 * 6 + 3, 4 * 6 + 5}) EXPECT_GE(found.links[pair], 2u);
  EXPECT_LT(found.worst, 50);
  for (const RivalTopology& rival : rival_topologies(demands, {.ports = 4, .bandwidth = kUnit})) {
    EXPECT_GT(rival.worst, found.worst) << rival.name;
  }
}

TEST(DemandTopology, IsTheSameEachTime) {
  std::mt19937_64 random(11);
  const DemandSet demands{.matrices = {random_demand(random, 12)}, .uncertainty = Fraction(1, 4)};
  const TopologyRequest request{.ports = 4, .bandwidth = kUnit, .wiring = Wiring::circuits};
  const DemandTopology first = choose_topology(demands, request), second = choose_topology(demands, request);
  EXPECT_EQ(first.links, second.links);
  EXPECT_EQ(first.threshold, second.threshold);
  EXPECT_EQ(first.worst, second.worst);
  EXPECT_EQ(first.bound, second.bound);
}

TEST(DemandTopology, StaysWithinItsWorstLoadForAllOfTheSet) {
  std::mt19937_64 random(5);
  const DemandSet sure{.matrices = {random_demand(random, 6), random_demand(random, 6)}, .uncertainty = Fraction(0)};
  DemandSet unsure = sure;
  unsure.uncertainty = Fraction(3, 10);
  const TopologyRequest request{.ports = 3, .bandwidth = kUnit};
  const DemandTopology found = choose_topology(unsure, request);
  expect_within_ports(found, 6, request);
  EXPECT_LE(found.bound.to_double(), found.worst);
  for (const DemandMatrix& matrix : sure.matrices) {
    EXPECT_LE(WayByWay(as_real(found.links), 6, found.threshold).worst(in_links(matrix, kUnit)),
              found.worst * (1 + 1e-9));
  }
}

TEST(DemandTopology, WithoutSecondHopsIsExact) {
  const DemandSet demands = demands_of("0,30,0\n10,0,20\n0,0,0");
  const DemandTopology found =
      choose_topology(demands, {.ports = 3, .bandwidth = Bandwidth::bytes_per_second(10), .hops = Hops::direct_only});
  EXPECT_TRUE(found.is_best);
  EXPECT_EQ(found.bound, Fraction(2));  // two cables for 20, one for 30: 3; or two for 30 and one for 20
  EXPECT_DOUBLE_EQ(found.worst, 2);
  EXPECT_THAT(testing::error_of([&] {
                choose_topology(demands_of("0,1,1\n0,0,0\n0,0,0"),
                                {.ports = 1, .bandwidth = kUnit, .hops = Hops::direct_only});
              }),
              HasSubstr("gpu0 has 2 partners of demand but only 1 port"));
}

TEST(DemandTopology, RefusesWhatCannotBe) {
  const auto refusal = [](const std::string& csv, uint32_t ports) {
    return testing::error_of([&] { choose_topology(demands_of(csv), {.ports = ports, .bandwidth = kUnit}); });
  };
  EXPECT_THAT(refusal("0,1\n1,0", 0), HasSubstr("an endpoint has 1 to 1024 ports"));
  EXPECT_THAT(refusal("0,1\n1,0", 1025), HasSubstr("an endpoint has 1 to 1024 ports"));
  EXPECT_THAT(refusal("0,0\n0,0", 1), HasSubstr("all demands are 0"));
  EXPECT_THAT(refusal("0,1,1,1\n1,0,1,1\n1,1,0,1\n1,1,1,0", 1), HasSubstr("no topology of 1 port was found"));
}

TEST(DemandTopology, BecomesAFabricOfItsLinks) {
  const TopologyRequest request{.ports = 3, .bandwidth = Bandwidth::gigabytes_per_second(50)};
  const Fabric fabric = topology_fabric({"a", "b", "c"}, {0, 2, 1, 2, 0, 1, 1, 1, 0}, request);
  EXPECT_EQ(fabric.ranks().size(), 3u);
  EXPECT_EQ(fabric.links().size(), 6u);
  EXPECT_EQ(fabric.link(fabric.out_links(fabric.at("a"))[0]).bandwidth, Bandwidth::gigabytes_per_second(100));
  EXPECT_THAT(testing::error_of([&] {
                topology_fabric({"a", "b", "c", "d"}, {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0}, request);
              }),
              HasSubstr("the links leave parts that nothing joins"));
}

TEST(RivalTopologies, ServeTheirDemandWithOneHopWhereItIsEven) {
  const DemandSet demands = demands_of("0,1,1,1\n1,0,1,1\n1,1,0,1\n1,1,1,0");
  for (const RivalTopology& rival : rival_topologies(demands, {.ports = 3, .bandwidth = kUnit})) {
    if (rival.name != "random regular") {
      EXPECT_NEAR(rival.worst, 1, 1e-6) << rival.name;
    }
  }
}

TEST(DemandTopology, TellsThatItWorks) {
  size_t calls = 0;
  choose_topology(demands_of("0,1,2\n3,0,4\n5,6,0"), {.ports = 2, .bandwidth = kUnit}, [&] { ++calls; });
  EXPECT_GT(calls, 10u);
}

}  // namespace
}  // namespace banyan::design
