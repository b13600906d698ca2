#include "banyan/plan/flow/all_to_all.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/flow/test_path_oracle.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

Collective all_to_all(const Fabric& fabric, std::vector<uint64_t> traffic = {}, std::vector<NodeId> ranks = {}) {
  return Collective::make(
      fabric, {.kind = CollectiveKind::all_to_all, .ranks = std::move(ranks), .traffic = std::move(traffic)});
}

FlowPlan checked_plan(const Fabric& fabric, const Collective& collective) {
  FlowPlan plan = plan_all_to_all(fabric, collective);
  const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_TRUE(holds(plan.lengths, fabric, collective));
  EXPECT_EQ(plan.bound, plan.lengths.seconds_per_byte(collective));
  EXPECT_LE(plan.bound, plan.seconds_per_byte);
  EXPECT_EQ(plan.optimal, plan.bound == plan.seconds_per_byte);
  return plan;
}

double gap_of(const FlowPlan& plan) { return (plan.seconds_per_byte / plan.bound).to_double() - 1; }

// Any fabric, a subset of the ranks, any traffic, zeros included.
Collective random_all_to_all(const Fabric& fabric, std::mt19937_64& random) {
  std::vector<NodeId> ranks(fabric.ranks().begin(), fabric.ranks().end());
  std::shuffle(ranks.begin(), ranks.end(), random);
  if (random() % 3 == 0) ranks.resize(2 + random() % (ranks.size() - 1));
  std::vector<uint64_t> traffic;
  if (random() % 3 != 0) {
    for (size_t i = 0; i < ranks.size() * ranks.size(); ++i) traffic.push_back(random() % 2 * (random() % 9));
    traffic[1] = 1 + random() % 5;
  }
  return all_to_all(fabric, std::move(traffic), std::move(ranks));
}

TEST(FlowPlan, BoundIsTheValueOfAnOracleOverAllPathsOnRandomFabrics) {
  int planned = 0, optimal = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const uint32_t ranks = 2 + static_cast<uint32_t>(random() % 5), switches = static_cast<uint32_t>(random() % 3);
    const Fabric fabric = banyan::testing::random_fabric({.ranks = ranks,
                                                          .switches = switches,
                                                          .extra_cables = static_cast<uint32_t>(random() % 6),
                                                          .max_gigabytes = 1 + static_cast<uint32_t>(random() % 9),
                                                          .directed = random() % 2 == 0,
                                                          .seed = seed});
    const Collective collective = random_all_to_all(fabric, random);
    const std::optional<double> expected = oracle_seconds_per_byte(fabric, collective);
    if (!expected) {
      EXPECT_THROW(plan_all_to_all(fabric, collective), Error);
      continue;
    }
    const FlowPlan plan = checked_plan(fabric, collective);
    EXPECT_NEAR(plan.bound.to_double() / *expected, 1, 1e-6);
    EXPECT_LT(gap_of(plan), 0.001);
    ++planned;
    optimal += plan.optimal;
  }
  EXPECT_GE(planned, 150);
  EXPECT_GE(optimal, planned * 9 / 10);
}

// The direct-connect topologies of arXiv 2309.13541, section 5, with links of 1 GB/s: what each rank ships to each
// other a second.
struct PublishedRate {
  const char* spec;
  int64_t numerator, denominator;
};
class PublishedRates : public ::testing::TestWithParam<PublishedRate> {};

TEST_P(PublishedRates, AreTheBoundAndReached) {
  const PublishedRate& published = GetParam();
  const Fabric fabric = fabric::generate_fabric(std::string(published.spec) + "@1GB/s");
  const FlowPlan plan = checked_plan(fabric, all_to_all(fabric));
  const Fraction rate = Fraction(1) / (plan.bound * Fraction(static_cast<int64_t>(fabric.ranks().size())));
  EXPECT_EQ(rate / Fraction(1'000'000'000), Fraction(published.numerator, published.denominator));
  EXPECT_LT(gap_of(plan), 0.001);
}

INSTANTIATE_TEST_SUITE_P(
    FlowPlan, PublishedRates,
    ::testing::Values(PublishedRate{"torus:3x3", 1, 3}, PublishedRate{"torus:4x4", 1, 8},
                      PublishedRate{"torus:8x8", 1, 64}, PublishedRate{"torus:4x3", 1, 6},
                      PublishedRate{"torus:4x4x4", 1, 32}, PublishedRate{"hypercube:4", 1, 8},
                      PublishedRate{"hypercube:6", 1, 32}, PublishedRate{"circulant:12,2,3", 3, 14},
                      PublishedRate{"circulant:16,3,4", 1, 8}, PublishedRate{"kautz:n=16,d=4", 7, 53},
                      PublishedRate{"kautz:n=32,d=4", 4, 85}, PublishedRate{"kautz:n=64,d=4", 15, 691},
                      PublishedRate{"torus:8x8x8", 1, 512}),
    [](const auto& tested) {
      std::string name = tested.param.spec;
      std::replace_if(
          name.begin(), name.end(), [](char letter) { return !std::isalnum(letter); }, '_');
      return name;
    });

// K4,4 and H(2,4): 0.400 and 0.250 a link.
TEST(FlowPlan, ReachesTheBoundOnBipartiteAndHammingGraphs) {
  fabric::Fabric::Builder bipartite, hamming;
  for (int i = 0; i < 8; ++i) bipartite.add_rank("r" + std::to_string(i));
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t j = 4; j < 8; ++j)
      bipartite.add_cable({.from = NodeId{i}, .to = NodeId{j}, .bandwidth = Bandwidth::gigabytes_per_second(1)});
  }
  for (int i = 0; i < 16; ++i) hamming.add_rank("r" + std::to_string(i));
  for (uint32_t i = 0; i < 16; ++i) {
    for (uint32_t j = i + 1; j < 16; ++j) {
      if (i / 4 == j / 4 || i % 4 == j % 4)
        hamming.add_cable({.from = NodeId{i}, .to = NodeId{j}, .bandwidth = Bandwidth::gigabytes_per_second(1)});
    }
  }
  const Fabric k44 = std::move(bipartite).build(), h24 = std::move(hamming).build();
  const FlowPlan first = checked_plan(k44, all_to_all(k44)), second = checked_plan(h24, all_to_all(h24));
  EXPECT_EQ(first.bound, Fraction(10, int64_t{4} * 8 * 1'000'000'000));
  EXPECT_EQ(second.bound, Fraction(4, int64_t{16} * 1'000'000'000));
  EXPECT_TRUE(first.optimal);
  EXPECT_TRUE(second.optimal);
}

TEST(FlowPlan, GoesDirectlyWhereSwitchesLead) {
  for (const char* spec :
       {"dgx-h100:4", "dgx-a100:2", "star:6", "leaf-spine:leaves=4,hosts=4,spines=2", "fat-tree:k=4"}) {
    SCOPED_TRACE(spec);
    const Fabric fabric = fabric::generate_fabric(spec);
    const FlowPlan plan = checked_plan(fabric, all_to_all(fabric));
    EXPECT_TRUE(plan.optimal);
    EXPECT_EQ(heights(plan.schedule).max, 1u);
    EXPECT_EQ(plan.most_forwarded, Fraction(0));
  }
}

// The NIC of one rank is gone: its box mates carry what it has for the other box.
TEST(FlowPlan, RanksForwardWhereThatIsFaster) {
  const Fabric fabric = fabric::parse_fabric_text(
      "a0 <-> nvsw0 100GB/s; a1 <-> nvsw0 100GB/s; b0 <-> nvsw1 100GB/s; b1 <-> nvsw1 100GB/s;"
      "a0 <-> sw 10GB/s; b0 <-> sw 10GB/s; b1 <-> sw 10GB/s");
  const FlowPlan plan = checked_plan(fabric, all_to_all(fabric));
  EXPECT_TRUE(plan.optimal);
  // All four shards out of box a pass the NIC of a0: 4 shards of M/4 over 10 GB/s.
  EXPECT_EQ(plan.bound, Fraction(1, 10'000'000'000));
  EXPECT_EQ(heights(plan.schedule).max, 2u);
  EXPECT_EQ(plan.most_forwarded, Fraction(1));  // two shards of a1, and two for it
}

TEST(FlowPlan, StepsAreHops) {
  const Fabric fabric = fabric::generate_fabric("ring:6");
  const FlowPlan plan = checked_plan(fabric, all_to_all(fabric));
  for (size_t i = 0; i < plan.schedule.chunk_count(); ++i) {
    const Chunk chunk = plan.schedule.chunk(i);
    ASSERT_EQ(chunk.out_steps.size(), chunk.out_tree.size());
    for (uint32_t hop = 0; hop < chunk.out_steps.size(); ++hop) EXPECT_EQ(chunk.out_steps[hop], hop + 1);
  }
  EXPECT_EQ(heights(plan.schedule).max, 3u);
}

TEST(FlowPlan, ShipsOnlyWhatTheTrafficSays) {
  const Fabric fabric = fabric::generate_fabric("ring:4@1GB/s");
  // Rank 0 has 6 parts for its neighbour, rank 2 has 2 for rank 3: both ways round are used for the six.
  const Collective collective = all_to_all(fabric, {5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0});
  const FlowPlan plan = checked_plan(fabric, collective);
  EXPECT_TRUE(plan.optimal);
  // 3 parts each way; M is the mean of 13 parts over 4 ranks.
  EXPECT_EQ(plan.bound, Fraction(3 * 4, int64_t{13} * 1'000'000'000));
}

TEST(FlowPlan, IsTheSameEachTime) {
  for (const char* spec : {"kautz:n=12,d=3", "random:n=40,links=90,seed=3", "random:n=60,links=300,seed=4"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const auto text = [&] {
      FlowPlan plan = plan_all_to_all(fabric, all_to_all(fabric));
      return schedule::format_schedule({.schedule = std::move(plan.schedule),
                                        .planner = "flow",
                                        .claimed_seconds_per_byte = plan.seconds_per_byte,
                                        .bound_seconds_per_byte = plan.bound});
    };
    EXPECT_EQ(text(), text()) << spec;
  }
}

TEST(FlowPlan, NamesRanksThatCannotReachEachOther) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s");
  try {
    plan_all_to_all(fabric, all_to_all(fabric, {}, {fabric.at("a"), fabric.at("c")}));
    ADD_FAILURE() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_THAT(error.what(), HasSubstr("rank 'a' can only reach 'c' through ranks that do not take part"));
  }
}

TEST(FlowPlan, ManyPairsAreRefused) {
  const Fabric fabric = fabric::generate_fabric("star:2100");
  try {
    plan_all_to_all(fabric, all_to_all(fabric));
    ADD_FAILURE() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("4407900 pairs of ranks have something to ship, the limit is 4194304"));
  }
}

TEST(LinkLengths, DoNotHoldWhenAnythingIsChanged) {
  const Fabric fabric = fabric::generate_fabric("torus:3x3@1GB/s");
  const Collective collective = all_to_all(fabric);
  const LinkLengths lengths = plan_all_to_all(fabric, collective).lengths;
  EXPECT_TRUE(holds(lengths, fabric, collective));
  LinkLengths other = lengths;
  ++other.length[5];
  EXPECT_FALSE(holds(other, fabric, collective));
  other = lengths;
  ++other.crossed;
  EXPECT_FALSE(holds(other, fabric, collective));
  other = lengths;
  --other.carried;
  EXPECT_FALSE(holds(other, fabric, collective));
  other = lengths;
  other.length.pop_back();
  EXPECT_FALSE(holds(other, fabric, collective));
  EXPECT_FALSE(holds(lengths, fabric, Collective::make(fabric, {})));  // an allgather
}

TEST(LinkLengths, AreSaidInWords) {
  const Fabric torus = fabric::generate_fabric("torus:3x3@1GB/s");
  // Four neighbours and four ranks two hops away: 9 * 12 links are crossed by 72 shards.
  LinkLengths lengths{.length = std::vector<uint64_t>(36, 1), .crossed = 108, .carried = 36'000'000'000};
  ASSERT_TRUE(holds(lengths, torus, all_to_all(torus)));
  EXPECT_EQ(describe(lengths, torus, all_to_all(torus)),
            "on its way a byte crosses 1.5 of all 36 links on average, and so counted they carry 36 GB/s together");
  lengths.length[0] = 0;
  lengths.length[1] = 4;
  EXPECT_THAT(describe(lengths, torus, all_to_all(torus)),
              HasSubstr("of 35 of 36 links on average, counted as 0.25 to 1 each"));
}

}  // namespace
}  // namespace banyan::plan
