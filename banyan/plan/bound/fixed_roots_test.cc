#include "banyan/plan/bound/fixed_roots.h"

#include "banyan/plan/bound/overlap.h"
#include "banyan/plan/bound/wished_shares.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

Fabric random_fabric_for_roots(uint64_t seed) {
  std::mt19937_64 random(seed);
  return banyan::testing::random_fabric({.ranks = 2 + static_cast<uint32_t>(random() % 7),
                                         .switches = static_cast<uint32_t>(random() % 3),
                                         .extra_cables = static_cast<uint32_t>(random() % 10),
                                         .max_gigabytes = 1 + static_cast<uint32_t>(random() % 9),
                                         .directed = random() % 2 == 0,
                                         .seed = seed});
}

// Within the links, balanced at switches, and enough for roots in proportion to `supply`.
void expect_right(const OverlapShares& shares, const std::vector<int64_t>& supply, const Fabric& fabric,
                  const Collective& collective) {
  for (const bool gathering : {false, true}) {
    const Network network(fabric, collective, gathering);
    const std::vector<int64_t>& own = gathering ? shares.gather : shares.spread;
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      EXPECT_GE(own[a], 0);
      EXPECT_LE(Fraction(shares.gather[a] + shares.spread[a]), shares.parts * Fraction(network.bandwidths()[a]));
    }
    for (uint32_t v = network.terminal_count(); v < network.vertex_count(); ++v) {
      int64_t excess = 0;
      for (const uint32_t a : network.in_arcs(v)) excess += own[a];
      for (const uint32_t a : network.out_arcs(v)) excess -= own[a];
      EXPECT_EQ(excess, 0);
    }
    EXPECT_FALSE(CutCondition(network).find_violated({.capacity = own, .supply = shares.supply}));
  }
  const double all = std::accumulate(supply.begin(), supply.end(), 0.0);
  const double own = std::accumulate(shares.supply.begin(), shares.supply.end(), 0.0);
  for (size_t t = 0; t < supply.size(); ++t) {
    EXPECT_NEAR(static_cast<double>(shares.supply[t]) / own, static_cast<double>(supply[t]) / all, 1e-4);
  }
}

// What a program with free roots has found are roots for which the same throughput can be had, and all of its shares.
TEST(WishedShares, AreTheBestSharesWhereTheseAreWishedFor) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Fabric fabric = random_fabric_for_roots(seed);
    const Collective collective = Collective::make(fabric, {.kind = CollectiveKind::all_reduce});
    const Overlap overlap = solve_overlap(fabric, collective);
    ASSERT_TRUE(overlap.shares.has_value());
    const OverlapShares& best = *overlap.shares;
    const WishedShares wish{.supply = best.supply, .gather = best.gather, .spread = best.spread};
    const auto shares = shares_for(fabric, collective, overlap.witness.bound, wish);
    ASSERT_TRUE(shares.has_value());
    expect_right(*shares, wish.supply, fabric, collective);
    const Network network(fabric, collective, false);
    EXPECT_NEAR(shares->seconds_per_byte(network).to_double() / overlap.witness.bound.to_double(), 1, 1e-4);
    const double scale = (shares->parts / best.parts).to_double();
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      const double slack = 1e-3 * static_cast<double>(network.bandwidths()[a]) * shares->parts.to_double() + 1;
      EXPECT_GE(static_cast<double>(shares->gather[a]), scale * static_cast<double>(best.gather[a]) - slack);
      EXPECT_GE(static_cast<double>(shares->spread[a]), scale * static_cast<double>(best.spread[a]) - slack);
    }
    EXPECT_FALSE(shares_for(fabric, collective, overlap.witness.bound * Fraction(99, 100), wish).has_value());
  }
}

}  // namespace
}  // namespace banyan::plan
