#include "banyan/design/topology.h"

#include "banyan/design/cayley_search.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/direct/bfb.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::design {
namespace {

bool has_one_as_good_as(const Topologies& found, uint32_t steps, const Fraction& time) {
  return std::any_of(found.rows.begin(), found.rows.end(),
                     [&](const Topology& row) { return row.on_frontier && row.steps <= steps && row.time <= time; });
}

// The published frontier (arXiv 2202.03356): a generalized Kautz digraph, and line graphs of C16(3,4) and of the square
// of the diamond.
TEST(Topology, ReachesThePublishedFrontierOf1024RanksOfDegree4) {
  const Topologies found = find_topologies({.ranks = 1024, .degree = 4});
  EXPECT_EQ(found.least_steps, 5u);
  EXPECT_EQ(found.least_time, Fraction(1023, 1024));
  EXPECT_TRUE(has_one_as_good_as(found, 5, {1332, 1000}));
  EXPECT_TRUE(has_one_as_good_as(found, 6, {1020, 1000}));
  EXPECT_TRUE(has_one_as_good_as(found, 7, {1004, 1000}));
  EXPECT_TRUE(has_one_as_good_as(found, 6, found.least_time));
}

// Row by row, by the verifier and by counting links.
TEST(Topology, EveryRowIsWhatItSays) {
  for (const auto& [ranks, degree] : {std::pair{2, 1}, {5, 1}, {8, 2}, {12, 4}, {16, 4}, {64, 4}, {30, 5}, {48, 6}}) {
    for (const bool cables : {false, true}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, degree " + std::to_string(degree) + (cables ? ", cables" : ""));
      if (cables && ranks == 5) continue;
      const Topologies found = find_topologies(
          {.ranks = static_cast<uint64_t>(ranks), .degree = static_cast<uint64_t>(degree), .cables = cables});
      EXPECT_TRUE(found.rows.front().on_frontier);
      for (size_t i = 0; i < found.rows.size(); ++i) {
        const Topology& row = found.rows[i];
        SCOPED_TRACE(row.spec);
        EXPECT_TRUE(row.verified);
        EXPECT_TRUE(row.in_cables || !cables);
        EXPECT_GE(row.steps, found.least_steps);
        EXPECT_GE(row.time, found.least_time);
        const bool is_beaten = std::any_of(found.rows.begin(), found.rows.begin() + static_cast<ptrdiff_t>(i),
                                           [&](const Topology& before) { return before.time <= row.time; });
        EXPECT_EQ(row.on_frontier, !is_beaten);
        const Fabric fabric = fabric::generate_fabric(row.spec + "@1GB/s");
        EXPECT_EQ(fabric.ranks().size(), static_cast<size_t>(ranks));
        size_t most = 0;
        for (const NodeId rank : fabric.ranks())
          most = std::max({most, fabric.out_links(rank).size(), fabric.in_links(rank).size()});
        EXPECT_EQ(most, static_cast<size_t>(degree));
        const plan::BfbPlan plan = plan::plan_bfb(fabric, Collective::make(fabric, {}));
        const schedule::Verdict verdict = verify(plan.schedule);
        EXPECT_TRUE(verdict.valid) << verdict.reason;
        const Fraction unit(int64_t{1'000'000'000} * degree);
        EXPECT_LE(plan.cost.steps.size(), row.steps);
        EXPECT_LE(verdict.seconds_per_byte * unit, row.time);
        // Where all ranks are alike, the steps' most loaded links are the same ones.
        if (row.spec.starts_with("cayley")) {
          EXPECT_EQ(verdict.seconds_per_byte * unit, row.time);
        }
      }
    }
  }
}

TEST(Topology, TellsTheHopBoundOfAllToAll) {
  const auto rate = [](const std::string& spec) {
    return hop_bound_of_all_to_all(fabric::generate_fabric(spec)).per_pair;
  };
  EXPECT_EQ(rate("torus:3x3"), Fraction(1, 3));
  EXPECT_EQ(rate("torus:4x4"), Fraction(1, 8));
  EXPECT_EQ(rate("torus:8x8"), Fraction(1, 64));
  EXPECT_EQ(rate("torus:4x3"), Fraction(1, 5));
  EXPECT_EQ(rate("torus:4x4x4"), Fraction(1, 32));
  EXPECT_EQ(rate("hypercube:6"), Fraction(1, 32));
  EXPECT_EQ(rate("hypercube:4"), Fraction(1, 8));
  EXPECT_EQ(rate("bipartite:4x4"), Fraction(2, 5));
  EXPECT_EQ(rate("hamming:4x4"), Fraction(1, 4));
  EXPECT_EQ(rate("circulant:12,2,3"), Fraction(2, 9));
  EXPECT_EQ(rate("circulant:16,3,4"), Fraction(2, 15));
  EXPECT_EQ(rate("kautz:n=16,d=4"), Fraction(1, 7));
  EXPECT_NEAR(rate("kautz:n=32,d=4").to_double(), 0.05410, 5e-6);
  EXPECT_NEAR(rate("kautz:n=64,d=4").to_double(), 0.02368, 5e-6);
}

// Published values (HPDC'24, arXiv 2309.13541, and runs of the same program), at most 0.1 % below.
TEST(Topology, TellsWhatAnAllToAllReaches) {
  const std::vector<std::pair<std::string, double>> published = {
      {"torus:3x3", 1.0 / 3},      {"torus:4x3", 1.0 / 6},      {"torus:8x8", 1.0 / 64},
      {"bipartite:4x4", 0.4},      {"hamming:4x4", 0.25},       {"circulant:12,2,3", 0.21429},
      {"circulant:16,3,4", 0.125}, {"kautz:n=16,d=4", 0.13208}, {"kautz:n=64,d=4", 0.02171}};
  for (const auto& [spec, rate] : published) {
    const AllToAllRate reached = all_to_all_rate(fabric::generate_fabric(spec));
    EXPECT_FALSE(reached.is_bound);
    EXPECT_NEAR(reached.per_pair.to_double() / rate, 1, 1e-3) << spec;
  }
}

TEST(Topology, CountsTheMooreBound) {
  EXPECT_EQ(moore_steps(5, 4, false), 1u);
  EXPECT_EQ(moore_steps(21, 4, false), 2u);
  EXPECT_EQ(moore_steps(22, 4, false), 3u);
  EXPECT_EQ(moore_steps(1024, 4, false), 5u);
  EXPECT_EQ(moore_steps(10, 3, true), 2u);  // the graph of Petersen
  EXPECT_EQ(moore_steps(11, 3, true), 3u);
  EXPECT_EQ(moore_steps(7, 1, false), 6u);
}

TEST(CayleySearch, FindsTheSameEachTimeAndWhatItsSpecsAre) {
  const CayleySearch search = {.ranks = 64, .degree = 4, .visits = 10'000'000};
  const std::vector<CayleyDigraph> found = search_cayley(search), again = search_cayley(search);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().steps, 4u);
  EXPECT_EQ(found.front().time, Fraction(63, 64));
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].spec, again[i].spec);
    const Fabric fabric = fabric::generate_fabric(found[i].spec + "@1GB/s");
    EXPECT_EQ(fabric::generate_group(fabric.symmetries(), 64).size(), 64u);
    Fraction time(0);
    size_t steps = 0;
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
      const plan::BfbCost cost = plan::bfb_cost(fabric, Collective::make(fabric, {.kind = kind}));
      time = std::max(time, cost.seconds_per_byte() * Fraction(4'000'000'000));
      steps = std::max(steps, cost.steps.size());
    }
    EXPECT_EQ(time, found[i].time);
    EXPECT_EQ(steps, found[i].steps);
  }
}

TEST(Topology, RefusesWhatItDoesNotLookFor) {
  const auto error_of = [](uint64_t ranks, uint64_t degree, bool cables = false) {
    return testing::error_of([&] { find_topologies({.ranks = ranks, .degree = degree, .cables = cables}); });
  };
  EXPECT_THAT(error_of(1, 1), HasSubstr("of 1 ranks is not looked for, but one of 2 to 10000"));
  EXPECT_THAT(error_of(1'000'000, 4), HasSubstr("2 to 10000"));
  EXPECT_THAT(error_of(8, 0), HasSubstr("a degree of 0 is not looked for, but one of 1 to 7 for 8 ranks"));
  EXPECT_THAT(error_of(8, 8), HasSubstr("1 to 7"));
  EXPECT_THAT(error_of(1000, 65), HasSubstr("1 to 64"));
  EXPECT_THAT(error_of(7, 3, true), HasSubstr("no topology of 7 ranks with 3 cables each is known"));
  EXPECT_THAT(error_of(6, 1, true), HasSubstr("no topology of 6 ranks with 1 cables each"));
}

}  // namespace
}  // namespace banyan::design
