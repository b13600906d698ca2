#include "banyan/testing/two_tier_time.h"

#include "banyan/plan/two_tier/test_traffic.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

TwoTierRates rates(uint64_t inside, uint64_t between) {
  return {Bandwidth::bytes_per_second(inside), Bandwidth::bytes_per_second(between)};
}
const TwoTierRates kH200{Bandwidth::gigabytes_per_second(450), Bandwidth::gigabytes_per_second(50)};
const TwoTierRates kMi300x{Bandwidth::gigabytes_per_second(448), Bandwidth::gigabits_per_second(100)};

// GPU 0 of box 0 has 40 bytes for GPU 3 of box 1, and all is one stage: it passes 10 to each other GPU, 30 at 10 B/s;
// then 10 bytes fly from each GPU at 2 B/s; then GPU 3 takes 30 from the others.
TEST(TwoTierTime, OfOneFlowIsBalanceFlightAndRedistribution) {
  TwoTierPlanner planner({2, 4}, {.pieces = 1});
  Traffic traffic(64);
  traffic[0 * 8 + 7] = 40;
  const TwoTierTime time = two_tier_time(planner.plan(traffic), traffic, rates(10, 2));
  EXPECT_DOUBLE_EQ(time.first, 3);
  EXPECT_DOUBLE_EQ(time.network, 5);
  EXPECT_DOUBLE_EQ(time.last, 3);
  EXPECT_DOUBLE_EQ(time.waits_inside, 0);
  EXPECT_DOUBLE_EQ(time.seconds, 11);
  EXPECT_DOUBLE_EQ(fluid_bound({2, 4}, traffic, rates(10, 2)), 5);
}

// The same in two pieces of 20 bytes. GPU 0 sends its own 10 bytes, half of them in each piece: nothing else overlaps.
TEST(TwoTierTime, OverlapsPieces) {
  TwoTierPlanner planner({2, 4}, {.pieces = 2, .smallest_piece = 1});
  Traffic traffic(64);
  traffic[0 * 8 + 7] = 40;
  // step 0: 15 bytes in the box 1.5 s; stage 1: 5 bytes 2.5 s beside 1.5 s of balance; stage 2: 2.5 s beside 1.5 s
  const TwoTierTime time = two_tier_time(planner.plan(traffic), traffic, rates(10, 2));
  EXPECT_DOUBLE_EQ(time.first, 1.5);
  EXPECT_DOUBLE_EQ(time.network, 5);
  EXPECT_DOUBLE_EQ(time.last, 1.5);
  EXPECT_DOUBLE_EQ(time.seconds, 8);
}

TEST(TwoTierTime, HidesWhatStaysInABoxBesideTheStages) {
  TwoTierPlanner planner({2, 1 + 1}, {.pieces = 1});
  Traffic traffic(16);
  for (const size_t i : {0 * 4 + 2, 1 * 4 + 3, 2 * 4 + 0, 3 * 4 + 1}) traffic[i] = 8;  // balanced, at the right GPU
  traffic[0 * 4 + 1] = 30;                                                             // 3 s inside
  TwoTierTime time = two_tier_time(planner.plan(traffic), traffic, rates(10, 2));
  EXPECT_DOUBLE_EQ(time.seconds, 4);
  traffic[0 * 4 + 1] = 70;
  time = two_tier_time(planner.plan(traffic), traffic, rates(10, 2));
  EXPECT_DOUBLE_EQ(time.stays_inside, 3);
  EXPECT_DOUBLE_EQ(time.seconds, 7);
  EXPECT_DOUBLE_EQ(fluid_bound({2, 2}, traffic, rates(10, 2)), 7);
}

TEST(TwoTierTime, OfNoTrafficIsNothing) {
  TwoTierPlanner planner({2, 4});
  const Traffic traffic(64);
  EXPECT_EQ(two_tier_time(planner.plan(traffic), traffic, kH200).seconds, 0);
  EXPECT_EQ(fluid_bound({2, 4}, traffic, kH200), 0);
}

TEST(TwoTierTime, IsWithinFivePercentOfTheFluidBound) {
  for (const uint32_t boxes : {4u, 8u}) {
    const TwoTierShape shape{boxes, 8};
    TwoTierPlanner planner(shape);
    for (uint64_t seed = 1; seed <= 10; ++seed)
      for (const double skew : {-1.0, 0.0, 0.3, 0.6, 0.9}) {  // -1: random
        const Traffic traffic = skew < 0 ? random_traffic(shape.ranks(), 2'000'000'000 / shape.ranks(), seed)
                                         : zipf_traffic(shape.ranks(), skew, 1'000'000'000, seed);
        const TwoTierPlan& plan = planner.plan(traffic);
        for (const TwoTierRates& of : {kH200, kMi300x}) {
          const double ratio = two_tier_time(plan, traffic, of).seconds / fluid_bound(shape, traffic, of);
          EXPECT_GE(ratio, 1) << "seed " << seed << " skew " << skew;
          EXPECT_LE(ratio, 1.05) << "boxes " << boxes << " seed " << seed << " skew " << skew;
        }
      }
  }
}

}  // namespace
}  // namespace banyan::plan
