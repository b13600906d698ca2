#include "banyan/design/threshold_routing.h"

#include <limits>

#include "banyan/design/port_rounding.h"
#include "banyan/design/test_topologies.h"
#include "banyan/testing/test.h"

namespace banyan::design {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> random_links(std::mt19937_64& random, size_t n) {
  const Ports ports{.endpoints = n,
                    .each = 1 + static_cast<uint32_t>(random() % 4),
                    .wiring = random() % 2 == 0 ? Wiring::cables : Wiring::circuits};
  const std::vector<uint32_t> links = random_regular(ports, random());
  std::vector<double> result(links.begin(), links.end());
  for (double& count : result) count *= random() % 2 == 0 ? 1 : 0.5 + static_cast<double>(random() % 4);
  return result;
}

TEST(ThresholdRouting, SendsDirectUpToTheThresholdAndTheRestByTwoHops) {
  // Cables a-b (2), a-c, b-c, a-d, b-d (1 each): from a to b two links, and two ways of two hops, of one link each.
  const std::vector<double> links{0, 2, 1, 1, 2, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0};
  DemandSet demands{.matrices = {parse_demand_csv("0,100,0,0\n0,0,0,0\n0,0,0,0\n0,0,0,0", "d.csv")},
                    .uncertainty = Fraction(0)};
  const ThresholdRouting routing(demands, kUnit, Hops::indirect_too);
  const std::vector<double> loads = routing.loads(links, 30);
  EXPECT_DOUBLE_EQ(loads[0 * 4 + 1], 30);  // 60 of 100 on two links
  for (const size_t e : {0 * 4 + 2, 2 * 4 + 1, 0 * 4 + 3, 3 * 4 + 1}) EXPECT_DOUBLE_EQ(loads[e], 20);
  EXPECT_DOUBLE_EQ(routing.direct_share(links, 30, 0, 1), 0.6);
  EXPECT_DOUBLE_EQ(routing.judge(links, 0).worst, 50);
  // 2 h = 100 - 2 h at the best threshold of 25.
  const ThresholdRouting::Choice best = routing.best_threshold(links);
  EXPECT_NEAR(best.judgement.worst, 25, 1e-4);
  EXPECT_NEAR(best.threshold, 25, 1e-4);
  const ThresholdRouting direct(demands, kUnit, Hops::direct_only);
  EXPECT_DOUBLE_EQ(direct.best_threshold(links).judgement.worst, 50);
}

TEST(ThresholdRouting, SaysHowMuchTrafficHasNoWay) {
  const std::vector<double> links{0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0};
  DemandSet demands{.matrices = {parse_demand_csv("0,60,0,20\n0,0,0,0\n0,0,0,20\n0,0,0,0", "d.csv")},
                    .uncertainty = Fraction(0)};
  EXPECT_DOUBLE_EQ(ThresholdRouting(demands, kUnit, Hops::indirect_too).judge(links, 1).unreachable, 0.2);
  demands.uncertainty = Fraction(1, 2);
  EXPECT_GT(ThresholdRouting(demands, kUnit, Hops::indirect_too).judge(links, 1).unreachable, 0.1);
  EXPECT_DOUBLE_EQ(ThresholdRouting(demands, kUnit, Hops::direct_only).judge(links, kInfinity).worst, 60);
}

TEST(ThresholdRouting, LoadsLinksAsWayByWay) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const size_t n = 2 + random() % 8;
    DemandSet demands{.matrices = {random_demand(random, n)}, .uncertainty = Fraction(0)};
    const std::vector<double> links = random_links(random, n);
    const double threshold = static_cast<double>(random() % 1500);
    const ThresholdRouting routing(demands, kUnit, Hops::indirect_too);
    const Judgement judgement = routing.judge(links, threshold);
    const std::vector<double> expected = WayByWay(links, n, threshold).loads(in_links(demands.matrices[0], kUnit));
    if (judgement.unreachable > 0) {
      EXPECT_EQ(expected[0], 1e300);
      continue;
    }
    const std::vector<double> loads = routing.loads(links, threshold);
    double worst = 0;
    for (size_t e = 0; e < n * n; ++e) {
      EXPECT_NEAR(loads[e], expected[e], 1e-9 * (1 + expected[e]));
      worst = std::max(worst, expected[e]);
    }
    EXPECT_NEAR(judgement.worst, worst, 1e-9 * (1 + worst));
  }
}

// A member of the set: entries up to what they may be, in random order, within the totals of rows and columns.
std::vector<double> random_member(std::mt19937_64& random, const DemandMatrix& demand,
                                  const std::vector<uint64_t>& most) {
  const size_t n = demand.size();
  std::vector<uint64_t> rows = demand.row_totals(), columns = demand.column_totals();
  std::vector<size_t> order(n * n);
  for (size_t e = 0; e < order.size(); ++e) order[e] = e;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<double> member(n * n);
  for (const size_t e : order) {
    if (random() % 8 == 0) continue;
    const uint64_t amount = std::min({most[e], rows[e / n], columns[e % n]});
    member[e] = static_cast<double>(amount);
    rows[e / n] -= amount;
    columns[e % n] -= amount;
  }
  return member;
}

TEST(ThresholdRouting, CoversAllDemandsOfAnUncertainSet) {
  double closest = 0, judged = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const size_t n = 3 + random() % 5;
    const DemandSet demands{.matrices = {random_demand(random, n)},
                            .uncertainty = Fraction(static_cast<int64_t>(random() % 20), 10)};
    const std::vector<double> links = random_links(random, n);
    const double threshold = static_cast<double>(random() % 1500);
    const ThresholdRouting routing(demands, kUnit, Hops::indirect_too);
    if (routing.judge(links, threshold).unreachable > 0) continue;
    const std::vector<double> loads = routing.loads(links, threshold);
    const std::vector<uint64_t> most = demands.most(demands.matrices[0]);
    double covered = 0, reached = 0;
    for (const double load : loads) covered = std::max(covered, load);
    const WayByWay ways(links, n, threshold);
    for (int round = 0; round < 100; ++round) {
      const std::vector<double> member =
          round == 0 ? in_links(demands.matrices[0], kUnit) : random_member(random, demands.matrices[0], most);
      const std::vector<double> actual = ways.loads(member);
      for (size_t e = 0; e < n * n; ++e) {
        EXPECT_LE(actual[e], loads[e] * (1 + 1e-9) + 1e-9);
        reached = std::max(reached, actual[e]);
      }
    }
    if (demands.uncertainty == Fraction(0)) {
      EXPECT_NEAR(reached, covered, 1e-9 * (1 + covered));
    }
    closest += reached / covered;
    ++judged;
  }
  EXPECT_GT(closest / judged, 0.9);  // of random demands; what is covered is no wild guess
}

TEST(ThresholdRouting, WithoutUncertaintyTheSetIsTheMatrix) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const size_t n = 3 + random() % 5;
    DemandSet demands{.matrices = {random_demand(random, n)}, .uncertainty = Fraction(0)};
    const std::vector<double> links = random_links(random, n);
    const double exact = ThresholdRouting(demands, kUnit, Hops::indirect_too).judge(links, 300).worst;
    demands.uncertainty = Fraction(1, 1'000'000);  // nothing grows by a whole byte
    const double covered = ThresholdRouting(demands, kUnit, Hops::indirect_too).judge(links, 300).worst;
    EXPECT_NEAR(covered, exact, 1e-9 * (1 + exact));
  }
}

TEST(ThresholdRouting, TakesTheWorstOfSeveralMatrices) {
  const DemandMatrix first = parse_demand_csv("0,10,0\n0,0,0\n0,0,0", "a.csv"),
                     second = parse_demand_csv("0,0,0\n0,0,30\n0,0,0", "b.csv");
  const DemandSet both{.matrices = {first, second}, .uncertainty = Fraction(0)};
  const std::vector<double> links{0, 1, 1, 1, 0, 1, 1, 1, 0};
  const ThresholdRouting routing(both, kUnit, Hops::direct_only);
  EXPECT_DOUBLE_EQ(routing.judge(links, kInfinity).worst, 30);
  EXPECT_DOUBLE_EQ(routing.loads(links, kInfinity)[1], 10);
}

}  // namespace
}  // namespace banyan::design
