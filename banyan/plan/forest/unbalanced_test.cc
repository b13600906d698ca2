// Switches that take in less than they could give out, or the other way round.
#include <gmock/gmock.h>

#include <random>

#include "banyan/base/error.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/tree_program.h"

namespace banyan::plan {
namespace {

constexpr CollectiveKind kOneDirection[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                            CollectiveKind::broadcast, CollectiveKind::reduce};

// One-way links with bandwidths of a few digits, most of them at switches. Nothing where ranks cannot reach each other.
std::optional<Fabric> one_way_fabric(uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint32_t ranks = 2 + static_cast<uint32_t>(random() % 5),
                 nodes = ranks + 1 + static_cast<uint32_t>(random() % 3);
  const uint64_t most = random() % 2 == 0 ? 4 : 200;
  Fabric::Builder builder;
  for (uint32_t i = 0; i < ranks; ++i) builder.add_rank("r" + std::to_string(i));
  for (uint32_t i = ranks; i < nodes; ++i) builder.add_switch("sw" + std::to_string(i - ranks));
  const auto join = [&](uint32_t from, uint32_t to) {
    if (from == to) return;
    const Bandwidth bandwidth = Bandwidth::bytes_per_second(1 + random() % most);
    builder.add_link({.from = NodeId{from}, .to = NodeId{to}, .bandwidth = bandwidth});
  };
  for (uint32_t r = 0; r < ranks; ++r) {
    join(r, ranks + static_cast<uint32_t>(random() % (nodes - ranks)));
    join(ranks + static_cast<uint32_t>(random() % (nodes - ranks)), r);
  }
  for (uint64_t more = random() % 12; more > 0; --more) {
    join(static_cast<uint32_t>(random() % nodes), static_cast<uint32_t>(random() % nodes));
  }
  try {
    return std::move(builder).build();
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST(UnbalancedSwitches, ArePlannedAtTheOptimumOfAllFlowsWithBalance) {
  int tightened = 0;
  int planned = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto some = one_way_fabric(seed);
    if (!some) continue;
    ++planned;
    const Fabric& fabric = *some;
    Collective::Options options{.kind = kOneDirection[seed % 4]};
    std::mt19937_64 random(seed);
    if (!Collective::make(fabric, options).is_rooted() && random() % 2 == 0) {
      for (size_t i = 0; i < fabric.ranks().size(); ++i) options.weights.push_back(1 + random() % 3);
    }
    const Collective collective = Collective::make(fabric, options);
    const ForestPlan plan = plan_forest(fabric, collective);
    const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
    ASSERT_TRUE(verdict.valid) << verdict.reason;
    EXPECT_TRUE(holds(plan.bound.witness, fabric, collective));
    EXPECT_TRUE(plan.optimal);
    const double expected = banyan::testing::tree_throughput(fabric, collective);
    EXPECT_NEAR(1 / plan.seconds_per_byte.to_double(), expected, 1e-6 * expected);
    const Bound bound = compute_bound(fabric, collective);
    EXPECT_EQ(bound.seconds_per_byte, plan.bound.seconds_per_byte);
    if (std::holds_alternative<CutWitness>(bound.witness)) continue;
    ++tightened;
    EXPECT_GT(banyan::testing::tree_throughput(fabric, collective, false), expected * (1 + 1e-9));
    EXPECT_THAT(describe(bound.witness, fabric, collective), ::testing::HasSubstr("must give out what comes in"));
  }
  EXPECT_GE(tightened, 20);
  printf("%d of %d tightened\n", tightened, planned);
}

}  // namespace
}  // namespace banyan::plan
