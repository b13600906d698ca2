// Switches that take in less than they could give out, or the other way round.

#include "banyan/fabric/text.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/allreduce_program.h"
#include "banyan/testing/balance_program.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

constexpr CollectiveKind kKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                     CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_reduce};

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
    const Bandwidth bandwidth = Bandwidth::gigabytes_per_second(1 + random() % most);
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

ForestPlan verified_plan(const Fabric& fabric, const Collective& collective, const ForestOptions& options = {}) {
  ForestPlan plan = plan_forest(fabric, collective, options);
  const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_TRUE(holds(plan.bound.witness, fabric, collective));
  EXPECT_LE(plan.bound.seconds_per_byte, plan.seconds_per_byte);
  return plan;
}

// Calls `check(fabric, collective)` for random fabrics and collectives. Returns for how many.
template <typename Check>
int for_random_cases(const Check& check) {
  int checked = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto fabric = one_way_fabric(seed);
    if (!fabric) continue;
    std::mt19937_64 random(seed);
    Collective::Options options{.kind = kKinds[seed % std::size(kKinds)]};
    const Collective even = Collective::make(*fabric, options);
    if (!even.is_rooted() && even.fixes_roots() && random() % 2 == 0) {
      for (size_t i = 0; i < fabric->ranks().size(); ++i) options.weights.push_back(1 + random() % 3);
    }
    check(*fabric, Collective::make(*fabric, options));
    ++checked;
  }
  return checked;
}

TEST(UnbalancedSwitches, ArePlannedAtTheOptimumOfAllFlowsWithBalance) {
  int tightened = 0;
  const int checked = for_random_cases([&](const Fabric& fabric, const Collective& collective) {
    const ForestPlan plan = verified_plan(fabric, collective);
    EXPECT_TRUE(plan.optimal);
    const bool both = collective.kind() == CollectiveKind::all_reduce;
    const double expected = both ? banyan::testing::allreduce_throughput(fabric, collective)
                                 : banyan::testing::tree_throughput(fabric, collective);
    EXPECT_NEAR(1 / plan.seconds_per_byte.to_double(), expected, 1e-6 * expected);
    const Bound bound = compute_bound(fabric, collective);
    EXPECT_EQ(bound.seconds_per_byte, plan.bound.seconds_per_byte);
    if (both || std::holds_alternative<CutWitness>(bound.witness)) return;
    ++tightened;
    EXPECT_GT(banyan::testing::tree_throughput(fabric, collective, false), expected * (1 + 1e-9));
    EXPECT_THAT(describe(bound.witness, fabric, collective), HasSubstr("must give out what comes in"));
  });
  EXPECT_GE(checked, 600);
  EXPECT_GE(tightened, 20);
}

TEST(UnbalancedSwitches, AreBalancedForAnyNumberOfTreesAtAStatedLoss) {
  for_random_cases([&](const Fabric& fabric, const Collective& collective) {
    const ForestPlan plan = verified_plan(fabric, collective, {.trees = 3});
    EXPECT_LE(plan.seconds_per_byte, plan.bound.seconds_per_byte + plan.guaranteed_excess);
  });
}

TEST(UnbalancedSwitches, AreBalancedUnderAHeight) {
  for_random_cases([&](const Fabric& fabric, const Collective& collective) {
    const ForestPlan plan = verified_plan(fabric, collective, {.max_height = 6});
    EXPECT_LE(schedule::heights(plan.schedule).max, collective.kind() == CollectiveKind::all_reduce ? 12u : 6u);
  });
}

// All that r0 sends comes through one link of 1 GB/s, and has to leave the switch three times.
TEST(UnbalancedSwitches, AreProvedByACutAndThePotentialOfASwitch) {
  const Fabric fabric = fabric::parse_fabric_text(
      "r0 -> sw 1GB/s; sw -> r1 1GB/s; sw -> r2 1GB/s; sw -> r3 1GB/s; r1 -> r0 1GB/s; r2 -> r0 1GB/s; r3 -> r0 1GB/s");
  const Collective broadcast = Collective::make(fabric, {.kind = CollectiveKind::broadcast});
  const Bound bound = compute_bound(fabric, broadcast);
  EXPECT_EQ(bound.seconds_per_byte, Fraction(3, 1'000'000'000));
  ASSERT_TRUE(std::holds_alternative<CutsWitness>(bound.witness));
  const CutsWitness good = std::get<CutsWitness>(bound.witness);
  EXPECT_TRUE(holds(good, fabric, broadcast));
  EXPECT_EQ(
      describe(good, fabric, broadcast),
      "a piece that is spread crosses the cuts around r1; r2; r3 at least 3 times, each counted by its weight, and "
      "so counted their links carry 1 GB/s together, as sw must give out what comes in");
  const auto fails = [&](auto change) {
    CutsWitness bad = good;
    change(bad);
    return !holds(bad, fabric, broadcast);
  };
  EXPECT_TRUE(fails([](CutsWitness& bad) { bad.bound = bad.bound * Fraction(11, 10); }));
  EXPECT_TRUE(fails([](CutsWitness& bad) { bad.potentials.clear(); }));
  EXPECT_TRUE(fails([](CutsWitness& bad) { bad.cuts.front().gathering = true; }));
  EXPECT_TRUE(fails([](CutsWitness& bad) { bad.over_images = true; }));
  EXPECT_FALSE(holds(good, fabric, Collective::make(fabric, {.kind = CollectiveKind::reduce})));
  EXPECT_TRUE(verified_plan(fabric, broadcast).optimal);
}

// A switch that multicasts need not be balanced, and the proof must not say so.
TEST(UnbalancedSwitches, ThatMulticastAreBoundedByTheCutAlone) {
  Fabric::Builder builder;
  for (const char* name : {"r0", "r1", "r2"}) builder.add_rank(name);
  const NodeId sw = builder.add_node({.name = "sw", .kind = fabric::NodeKind::switch_, .multicast = true});
  const Bandwidth rate = Bandwidth::gigabytes_per_second(1);
  builder.add_link({.from = NodeId{0}, .to = sw, .bandwidth = rate});
  for (const uint32_t r : {1u, 2u}) {
    builder.add_link({.from = sw, .to = NodeId{r}, .bandwidth = rate});
    builder.add_link({.from = NodeId{r}, .to = NodeId{0}, .bandwidth = rate});
  }
  const Fabric fabric = std::move(builder).build();
  const Bound bound = compute_bound(fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  EXPECT_EQ(bound.seconds_per_byte, Fraction(1, 1'000'000'000));
}

}  // namespace
}  // namespace banyan::plan
