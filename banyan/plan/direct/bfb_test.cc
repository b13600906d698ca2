#include "banyan/plan/direct/bfb.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/lp/linear_program.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

using banyan::testing::random_fabric;

constexpr CollectiveKind kKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                     CollectiveKind::all_reduce};

Fabric fabric_of(const std::string& spec) { return fabric::generate_fabric(spec + "@1GB/s"); }

// In units of M / B, where B is the bandwidth of `degree` links of 1 GB/s.
Fraction in_units(const Fraction& seconds_per_byte, int64_t degree) {
  return seconds_per_byte * Fraction(degree * 1'000'000'000);
}

// What the edges of each step put on the most loaded link, counted from the schedule alone.
std::vector<Fraction> recounted_steps(const Schedule& schedule) {
  std::vector<std::vector<uint64_t>> loads;
  const auto add = [&](std::span<const RouteId> tree, std::span<const uint32_t> steps, uint64_t units) {
    for (size_t i = 0; i < tree.size(); ++i) {
      if (loads.size() < steps[i]) loads.resize(steps[i], std::vector<uint64_t>(schedule.fabric().links().size(), 0));
      for (const LinkId link : schedule.route(tree[i]).links) loads[steps[i] - 1][index(link)] += units;
    }
  };
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    add(chunk.in_tree, chunk.in_steps, chunk.units);
    add(chunk.out_tree, chunk.out_steps, chunk.units);
  }
  std::vector<Fraction> steps;
  for (const std::vector<uint64_t>& on : loads) {
    Fraction most(0);
    for (uint32_t l = 0; l < on.size(); ++l) {
      most = std::max(most, Fraction(static_cast<int128>(on[l]),
                                     static_cast<int128>(schedule.total_units()) *
                                         schedule.fabric().link(LinkId{l}).bandwidth.bytes_per_second()));
    }
    steps.push_back(most);
  }
  return steps;
}

void expect_right(const BfbPlan& plan) {
  const schedule::Verdict verdict = verify(plan.schedule);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_EQ(schedule::heights(plan.schedule).max, plan.cost.steps.size());
  if (!plan.exact) return;
  EXPECT_EQ(recounted_steps(plan.schedule), plan.cost.steps);
  EXPECT_LE(verdict.seconds_per_byte, plan.cost.seconds_per_byte());
}

struct TableRow {
  std::string spec;
  int64_t degree;
  uint32_t steps;  // T_L
  Fraction time;   // T_B
  Fraction least;  // of all schedules on this fabric
};
void PrintTo(const TableRow& row, std::ostream* out) { *out << row.spec; }

class BfbTable : public ::testing::TestWithParam<TableRow> {};

TEST_P(BfbTable, HasTheStepsAndTheTimeOfThePaper) {
  const TableRow& row = GetParam();
  const Fabric fabric = fabric_of(row.spec);
  for (const CollectiveKind kind : kKinds) {
    const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {.kind = kind}));
    expect_right(plan);
    const int64_t phases = kind == CollectiveKind::all_reduce ? 2 : 1;
    EXPECT_TRUE(plan.exact);
    EXPECT_EQ(plan.cost.steps.size(), static_cast<size_t>(phases) * row.steps);
    EXPECT_EQ(in_units(plan.cost.seconds_per_byte(), row.degree), Fraction(phases) * row.time);
  }
  // Nobody can receive all but its own shard in less.
  uint64_t narrowest = UINT64_MAX;
  for (const NodeId rank : fabric.ranks()) narrowest = std::min<uint64_t>(narrowest, fabric.in_links(rank).size());
  const auto n = static_cast<int64_t>(fabric.ranks().size());
  EXPECT_EQ(Fraction((n - 1) * row.degree, n * static_cast<int64_t>(narrowest)), row.least);
}

INSTANTIATE_TEST_SUITE_P(
    Known, BfbTable,
    ::testing::Values(
        TableRow{"torus:3x3", 4, 2, {8, 9}, {8, 9}}, TableRow{"torus:4x4", 4, 4, {15, 16}, {15, 16}},
        TableRow{"torus:8x8", 4, 8, {63, 64}, {63, 64}}, TableRow{"torus:4x3", 4, 3, {11, 12}, {11, 12}},
        TableRow{"torus:4x4x4", 6, 6, {63, 64}, {63, 64}}, TableRow{"hypercube:6", 6, 6, {63, 64}, {63, 64}},
        TableRow{"hypercube:4", 4, 4, {15, 16}, {15, 16}}, TableRow{"bipartite:4x4", 4, 2, {7, 8}, {7, 8}},
        TableRow{"hamming:4x4", 6, 2, {15, 16}, {15, 16}}, TableRow{"circulant:12,2,3", 4, 2, {11, 12}, {11, 12}},
        TableRow{"circulant:16,3,4", 4, 3, {15, 16}, {15, 16}}, TableRow{"kautz:n=16,d=4", 4, 2, {5, 4}, {5, 4}},
        TableRow{"kautz:n=32,d=4", 4, 3, {13, 8}, {31, 24}}, TableRow{"kautz:n=64,d=4", 4, 3, {21, 16}, {21, 16}},
        TableRow{"kautz:n=256,d=4", 4, 4, {85, 64}, {85, 64}}, TableRow{"line:(circulant:16,3,4)", 4, 4, {1}, {63, 64}},
        TableRow{"line:(circulant:16,3,4)^2", 4, 5, {65, 64}, {255, 256}},
        TableRow{"line:(bipartite:4x4)", 4, 3, {1}, {31, 32}}, TableRow{"copies:(ring:4)x2", 4, 2, {7, 8}, {7, 8}},
        TableRow{"copies:(circulant:12,2,3)x2", 8, 2, {23, 24}, {23, 24}},
        // Not in the paper's table; by its rules for line graphs and products.
        TableRow{"line:(circulant:16,3,4)^3", 4, 6, {261, 256}, {1023, 1024}},
        TableRow{"diamond", 2, 3, {7, 8}, {7, 8}}, TableRow{"power:(diamond)^2", 4, 6, {63, 64}, {63, 64}},
        TableRow{"kautz:n=1024,d=4", 4, 5, {341, 256}, {341, 256}}));

// Distances by Floyd and Warshall, and a linear program for each receiver and step.
double least_time(const Fabric& fabric, const std::vector<uint64_t>& weights) {
  const size_t n = fabric.ranks().size();
  std::vector<std::vector<uint32_t>> distance(n, std::vector<uint32_t>(n, 1000));
  for (size_t v = 0; v < n; ++v) distance[v][v] = 0;
  for (const Link& link : fabric.links()) distance[index(link.from)][index(link.to)] = 1;
  for (size_t k = 0; k < n; ++k) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) distance[i][j] = std::min(distance[i][j], distance[i][k] + distance[k][j]);
    }
  }
  const auto total = static_cast<double>(std::accumulate(weights.begin(), weights.end(), uint64_t{0}));
  double time = 0;
  for (uint32_t t = 1; t < n; ++t) {
    double slowest = 0;
    for (uint32_t u = 0; u < n; ++u) {
      LinearProgram program;
      const int load = program.add_column(1);
      std::vector<std::vector<LinearProgram::Term>> of(n);
      const auto links = fabric.in_links(NodeId{u});
      for (const LinkId id : links) {
        const Link& link = fabric.link(id);
        std::vector<LinearProgram::Term> on = {
            {.column = load, .factor = -static_cast<double>(link.bandwidth.bytes_per_second()) / 1e9}};
        for (uint32_t v = 0; v < n; ++v) {
          if (distance[v][u] != t || distance[v][index(link.from)] != t - 1) continue;
          of[v].push_back({.column = program.add_column(0), .factor = 1});
          on.push_back(of[v].back());
        }
        program.add_row(on, -LinearProgram::kInfinity, 0);
      }
      for (uint32_t v = 0; v < n; ++v) {
        if (distance[v][u] != t) continue;
        program.add_row(of[v], static_cast<double>(weights[v]), static_cast<double>(weights[v]));
      }
      slowest = std::max(slowest, program.solve().value);
    }
    time += slowest;
  }
  return time / (total * 1e9);
}

TEST(Bfb, NeedsNoLongerThanALinearProgramForEveryReceiverAndStep) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto ranks = static_cast<uint32_t>(3 + random() % 9);
    const Fabric fabric = random_fabric({.ranks = ranks,
                                         .extra_cables = static_cast<uint32_t>(random() % 12),
                                         .max_gigabytes = seed % 2 == 0 ? 1u : 8u,
                                         .directed = seed % 3 == 0,
                                         .seed = seed});
    std::vector<uint64_t> weights(ranks, 1);
    if (seed % 4 == 0) {
      for (uint64_t& weight : weights) weight = random() % 5;
      weights.front() += 1;
    }
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
      const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {.kind = kind, .weights = weights}));
      const schedule::Verdict verdict = verify(plan.schedule);
      EXPECT_TRUE(verdict.valid) << verdict.reason;
      if (plan.exact && seed % 4 != 0) expect_right(plan);
      const Fabric spread = kind == CollectiveKind::all_gather ? fabric : fabric.reversed();
      const double least = least_time(spread, weights);
      EXPECT_NEAR(plan.cost.seconds_per_byte().to_double(), least, 1e-8 * least);
    }
  }
}

// The same nodes and links with no symmetry declared.
Fabric without_symmetries(const Fabric& fabric) {
  Fabric::Builder builder;
  for (const Node& node : fabric.nodes()) builder.add_node(node);
  for (const Link& link : fabric.links()) builder.add_link(link);
  return std::move(builder).build();
}

TEST(Bfb, FindsTheSameTimesWithAndWithoutSymmetries) {
  for (const char* spec : {"ring:7", "torus:4x3x2", "hypercube:5", "circulant:20,3,4", "kautz:n=20,d=4",
                           "debruijn:k=3,n=3", "line:(bipartite:3x3)", "copies:(ring:5)x3", "mesh:4x4",
                           "product:(ring:4)x(full:3)", "cayley:m=8,k=2,r=7,by=2.1+5.1+1+6"}) {
    SCOPED_TRACE(spec);
    const Fabric fabric = fabric_of(spec), plain = without_symmetries(fabric);
    EXPECT_FALSE(fabric.symmetries().empty());
    for (const CollectiveKind kind : kKinds) {
      const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {.kind = kind}));
      expect_right(plan);
      EXPECT_EQ(plan.cost.steps, plan_bfb(plain, Collective::make(plain, {.kind = kind})).cost.steps);
      EXPECT_EQ(plan.cost.steps, bfb_cost(fabric, Collective::make(fabric, {.kind = kind})).steps);
    }
  }
}

// Cables of other bandwidths along one dimension, which the symmetry keeps.
TEST(Bfb, BalancesLinksByTheirBandwidth) {
  const Fabric fabric = fabric::generate_fabric("product:(ring:4@1GB/s)x(ring:4@3GB/s)");
  EXPECT_EQ(fabric.symmetries().size(), 2u);
  const Collective allgather = Collective::make(fabric, {});
  const BfbPlan plan = plan_bfb(fabric, allgather);
  expect_right(plan);
  // Steps of 4, 6, 4 and 1 shards; two links of each bandwidth come in. The slow ones' own two shards need 1 second a
  // GB in the first step; then what the fast ones may take balances them.
  EXPECT_EQ(plan.cost.steps.front(), Fraction(1, 16'000'000'000));
  EXPECT_EQ(plan.cost.steps.back(), Fraction(1, 16) * Fraction(1, 8'000'000'000));
}

TEST(Bfb, UsesParallelLinks) {
  Fabric::Builder builder;
  const NodeId a = builder.add_rank("a"), b = builder.add_rank("b");
  for (const uint64_t rate : {1, 2}) {
    builder.add_cable({.from = a, .to = b, .bandwidth = Bandwidth::gigabytes_per_second(rate)});
  }
  const Fabric fabric = std::move(builder).build();
  for (const CollectiveKind kind : kKinds) {
    const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {.kind = kind}));
    expect_right(plan);
    EXPECT_EQ(plan.cost.steps.front(), Fraction(1, 6'000'000'000));
    EXPECT_EQ(plan.schedule.chunk_count(), 4u);
  }
}

TEST(Bfb, PlansForSomeOfTheRanks) {
  const Fabric fabric = fabric_of("torus:4x4");
  // Two rows: a torus of 4 x 2, whose links in the second dimension are there once.
  std::vector<NodeId> ranks(fabric.ranks().begin(), fabric.ranks().begin() + 8);
  const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {.ranks = ranks}));
  expect_right(plan);
  EXPECT_EQ(plan.cost.steps.size(), 3u);
}

TEST(Bfb, LeavesOutRanksWithoutAShard) {
  const Fabric fabric = fabric_of("ring:4");
  const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {.weights = {1, 0, 0, 0}}));
  const schedule::Verdict verdict = verify(plan.schedule);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_EQ(plan.schedule.chunk_count(), 2u);  // the opposite rank takes a half from either side
  EXPECT_EQ(plan.cost.steps, (std::vector<Fraction>{{1, 1'000'000'000}, {1, 2'000'000'000}}));
}

// Bandwidths that share no factor make shares that no 62 bits count.
TEST(Bfb, RoundsSharesThatHaveTooLittleInCommon) {
  std::mt19937_64 random(11);
  Fabric::Builder builder;
  constexpr uint32_t kRanks = 12;
  for (uint32_t i = 0; i < kRanks; ++i) builder.add_rank("r" + std::to_string(i));
  for (uint32_t i = 0; i < kRanks; ++i) {
    for (const uint32_t step : {1, 3}) {
      const Bandwidth rate = Bandwidth::bytes_per_second(1'000'000'000 + random() % 1'000'000'000);
      builder.add_cable({.from = NodeId{i}, .to = NodeId{(i + step) % kRanks}, .bandwidth = rate});
    }
  }
  const Fabric fabric = std::move(builder).build();
  const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce}));
  EXPECT_FALSE(plan.exact);
  const schedule::Verdict verdict = verify(plan.schedule);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  const std::vector<Fraction> steps = recounted_steps(plan.schedule);
  ASSERT_EQ(steps.size(), plan.cost.steps.size());
  for (size_t t = 0; t < steps.size(); ++t)
    EXPECT_NEAR(steps[t].to_double(), plan.cost.steps[t].to_double(), 1e-6 * plan.cost.steps[t].to_double());
}

TEST(Bfb, MakesTheSameScheduleEachTime) {
  const Fabric fabric = fabric_of("kautz:n=40,d=3");
  const auto edges = [&] {
    const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce}));
    std::vector<uint64_t> all;
    for (size_t i = 0; i < plan.schedule.chunk_count(); ++i) {
      const Chunk chunk = plan.schedule.chunk(i);
      all.push_back(chunk.units);
      for (const auto tree : {chunk.in_tree, chunk.out_tree}) {
        for (const RouteId route : tree) all.push_back(index(route));
      }
    }
    return all;
  };
  EXPECT_EQ(edges(), edges());
}

TEST(Bfb, PlansForThousandsOfRanks) {
  for (const char* spec : {"hypercube:10", "torus:50x50"}) {
    SCOPED_TRACE(spec);
    const Fabric fabric = fabric_of(spec);
    const BfbPlan plan = plan_bfb(fabric, Collective::make(fabric, {}));
    EXPECT_TRUE(plan.exact);
    EXPECT_TRUE(verify(plan.schedule, plan.cost.seconds_per_byte()).valid);
    const auto n = static_cast<int64_t>(fabric.ranks().size());
    const auto degree = static_cast<int64_t>(fabric.out_links(NodeId{0}).size());
    EXPECT_EQ(in_units(plan.cost.seconds_per_byte(), degree), Fraction(n - 1, n));
  }
}

TEST(Bfb, SaysWhyItHasNoSchedule) {
  const auto error_of = [](const std::string& spec, const Collective::Options& options) {
    const Fabric fabric = fabric::generate_fabric(spec);
    return testing::error_of([&] { plan_bfb(fabric, Collective::make(fabric, options)); }, ErrorCode::unsupported);
  };
  EXPECT_THAT(error_of("star:4", {}), HasSubstr("sw0 is a switch"));
  EXPECT_THAT(error_of("ring:4", {.kind = CollectiveKind::broadcast}), HasSubstr("allgather, reduce-scatter and"));
  EXPECT_THAT(error_of("ring:8", {.ranks = {NodeId{0}, NodeId{1}, NodeId{4}}}), HasSubstr("rank gpu0 cannot be"));
}

}  // namespace
}  // namespace banyan::plan
