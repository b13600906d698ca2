#include "banyan/plan/flow/concurrent_flow.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/flow/arc_lengths.h"
#include "banyan/plan/flow/exact_flow.h"
#include "banyan/plan/flow/flow_paths.h"
#include "banyan/plan/flow/path_balance.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

Network network_of(const Fabric& fabric) { return Network(fabric, Collective::make(fabric, {}), false); }

Demand random_demand(uint32_t terminals, std::mt19937_64& random) {
  std::vector<uint64_t> amounts;
  for (uint32_t i = 0; i < terminals * terminals; ++i) amounts.push_back(random() % 2 * (random() % 100));
  amounts[1] = 1;
  return Demand(terminals, std::move(amounts));
}

// Paths lead from source to target, pass nothing twice, and carry the demand of each pair exactly; the bound is what
// the lengths prove, and the load that of the paths.
void expect_sound(const Network& network, const Demand& demand, const ConcurrentFlow& flow) {
  std::map<std::pair<uint32_t, uint32_t>, int64_t> shipped;
  for (size_t i = 0; i < flow.paths.size(); ++i) {
    const PathFlows::Path path = flow.paths[i];
    ASSERT_GT(path.amount, 0);
    std::vector<bool> passed(network.vertex_count(), false);
    uint32_t at = path.source;
    passed[at] = true;
    for (const uint32_t a : path.arcs) {
      ASSERT_EQ(network.arcs()[a].tail, at);
      at = network.arcs()[a].head;
      ASSERT_FALSE(passed[at]);
      passed[at] = true;
    }
    ASSERT_EQ(at, path.target);
    shipped[{path.source, path.target}] += path.amount;
  }
  for (uint32_t s = 0; s < demand.terminals(); ++s) {
    for (uint32_t t = 0; t < demand.terminals(); ++t)
      ASSERT_EQ((shipped[{s, t}]), demand.of(s, t) * flow.paths.units_per_demand) << s << " to " << t;
  }
  EXPECT_EQ(flow.bound, least_load(network, demand, flow.lengths));
  EXPECT_EQ(flow.load, greatest_load(network, flow.paths));
  EXPECT_LE(flow.bound, flow.load);
}

TEST(ConcurrentFlow, BalancedPathsAreWithinTheGapOfTheProgram) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const uint64_t ranks = 4 + random() % 17, most = ranks * (ranks - 1) / 2;
    const uint64_t links = ranks - 1 + random() % (most - ranks + 2);
    const Fabric fabric = fabric::generate_fabric("random:n=" + std::to_string(ranks) +
                                                  ",links=" + std::to_string(links) + ",seed=" + std::to_string(seed));
    const Network network = network_of(fabric);
    const Demand demand =
        seed % 2 == 0 ? Demand::uniform(network.terminal_count()) : random_demand(network.terminal_count(), random);
    const ConcurrentFlow exact = solve_exactly(network, demand, NetworkSymmetry(network));
    const ConcurrentFlow balanced = balance_paths(network, demand, {.gap = 0.01});
    expect_sound(network, demand, exact);
    expect_sound(network, demand, balanced);
    EXPECT_LT(exact.gap(), 0.001);
    EXPECT_LT(balanced.gap(), 0.01);
    EXPECT_LE(balanced.bound.to_double(), exact.bound.to_double() * (1 + 1e-9));
  }
}

TEST(ConcurrentFlow, SymmetriesDoNotChangeTheBound) {
  for (const char* spec :
       {"torus:4x3", "hypercube:4", "circulant:12,2,3", "kautz:n=16,d=4", "dgx-h100:2", "mi250:1", "mesh:4x2"}) {
    SCOPED_TRACE(spec);
    const Fabric fabric = fabric::generate_fabric(spec);
    const Network network = network_of(fabric);
    const Demand demand = Demand::uniform(network.terminal_count());
    const std::optional<NetworkSymmetry> symmetry = NetworkSymmetry::of(network, fabric);
    ASSERT_TRUE(symmetry.has_value());
    const ConcurrentFlow one = solve_exactly(network, demand, *symmetry),
                         all = solve_exactly(network, demand, NetworkSymmetry(network));
    expect_sound(network, demand, one);
    EXPECT_EQ(one.bound, all.bound);
    EXPECT_LT(exact_flow_columns(network, demand, *symmetry),
              exact_flow_columns(network, demand, NetworkSymmetry(network)));
  }
}

// A demand that the rotation of a ring does not keep.
TEST(ConcurrentFlow, SymmetriesThatTheDemandBreaksAreNotUsed) {
  const Fabric fabric = fabric::generate_fabric("ring:4@1GB/s");
  const Network network = network_of(fabric);
  const Demand demand(4, {0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const ConcurrentFlow flow = solve_concurrent_flow(network, fabric, demand);
  expect_sound(network, demand, flow);
  EXPECT_EQ(flow.load, Fraction(1));
  EXPECT_EQ(flow.bound, Fraction(1));
}

// All must go the long way round the weak link, which early rounds do not offer.
TEST(ConcurrentFlow, LongDetoursAreFound) {
  std::string text = "r0 <-> r19 1MB/s;";
  for (int i = 0; i < 19; ++i) text += "r" + std::to_string(i) + " <-> r" + std::to_string(i + 1) + " 1GB/s;";
  const Fabric fabric = fabric::parse_fabric_text(text);
  const Network network = network_of(fabric);
  const Demand demand = Demand::uniform(20);
  const ConcurrentFlow flow = balance_paths(network, demand, {});
  expect_sound(network, demand, flow);
  EXPECT_LT(flow.gap(), 0.01);
}

// Of low degree, and without a symmetry that makes the linear program small.
TEST(ConcurrentFlow, LargeKautzGraphsAreBalancedToWithinOnePercent) {
  const Fabric fabric = fabric::generate_fabric("kautz:n=200,d=4");
  const Network network = network_of(fabric);
  const Demand demand = Demand::uniform(network.terminal_count());
  const ConcurrentFlow flow = solve_concurrent_flow(network, fabric, demand);
  expect_sound(network, demand, flow);
  EXPECT_LT(flow.gap(), 0.01);
}

TEST(ConcurrentFlow, AmountsBeyondWhatIsCountedAreRefused) {
  EXPECT_THROW(Demand(2, {0, Demand::kMostTotal, 1, 0}), Error);
  EXPECT_EQ(Demand(2, {7, Demand::kMostTotal, 0, 9}).total(), static_cast<int64_t>(Demand::kMostTotal));
}

TEST(TakeApart, ShortWaysComeFirstAndWholePathsStayWhole) {
  // s reaches t directly and over m, which wants one itself.
  const Fabric fabric = fabric::parse_fabric_text("s -> t 1GB/s; s -> m 1GB/s; m -> t 1GB/s; t -> s 1GB/s");
  const Network network = network_of(fabric);
  std::vector<double> flow(network.arcs().size(), 0), amounts(3, 0);
  const auto vertex = [&](const char* name) {
    for (uint32_t v = 0; v < 3; ++v) {
      if (fabric.name(network.node_of(v)) == name) return v;
    }
    return uint32_t{3};
  };
  const auto put = [&](const char* from, const char* to, double amount) {
    for (size_t a = 0; a < flow.size(); ++a) {
      if (network.arcs()[a].tail == vertex(from) && network.arcs()[a].head == vertex(to)) flow[a] = amount;
    }
  };
  put("s", "t", 2);
  put("s", "m", 4);
  put("m", "t", 3);
  amounts[vertex("t")] = 5;
  amounts[vertex("m")] = 1;
  RoughPaths paths;
  take_apart(network, vertex("s"), flow, amounts, {}, paths);
  ASSERT_EQ(paths.size(), 3u);
  double direct = 0, over = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].target == vertex("t")) (paths[i].arcs.size() == 1 ? direct : over) += paths[i].amount;
  }
  EXPECT_EQ(direct, 2);
  EXPECT_EQ(over, 3);
}

TEST(WholeLengths, KeepSmallProportions) {
  EXPECT_EQ(whole_lengths(std::vector<double>{1.0 / 3, 0.5, 0}), (std::vector<uint64_t>{2, 3, 0}));
  EXPECT_EQ(whole_lengths(std::vector<double>{7e-9, 7e-9}), (std::vector<uint64_t>{1, 1}));
}

TEST(RoundAmounts, GivesEachPairItsWholeDemand) {
  const Fabric fabric = fabric::generate_fabric("ring:4@1GB/s");
  const Network network = network_of(fabric);
  const Demand demand(4, {0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  ShortestPaths ways(network);
  std::vector<uint64_t> lengths(network.arcs().size(), 1);
  RoughPaths paths;
  for (int turn = 0; turn < 2; ++turn) {
    ways.search(lengths, 0);
    const auto way = ways.path_to(2);
    paths.add(0, 2, 1.5, way);
    for (const uint32_t a : way) lengths[a] = 9;
  }
  std::vector<uint32_t> own(network.arcs().size());
  for (uint32_t a = 0; a < own.size(); ++a) own[a] = a;
  const std::vector<double> bandwidth(own.size(), 1);
  const PathFlows flows = round_amounts(paths, demand, {.of = own, .bandwidth = bandwidth}, 0.01);
  EXPECT_EQ(flows.units_per_demand, 2);
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_EQ(flows[0].amount + flows[1].amount, 6);
  EXPECT_EQ(greatest_load(network, flows), Fraction(3, 2));
}

}  // namespace
}  // namespace banyan::plan
