#include "banyan/predict/fluid/max_min.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

std::vector<FluidHop> on(std::initializer_list<uint32_t> links) {
  std::vector<FluidHop> hops;
  for (const uint32_t link : links) hops.push_back({link, 1});
  return hops;
}

TEST(MaxMin, SharesTheTextbookExample) {
  // Bertsekas, Gallager: Data Networks, figure 6.15 in numbers of our own: the long flow is held back where it is most
  // crowded, the others take what is left.
  MaxMin solver({12, 30, 9});
  solver.add(0, {.hops = on({0, 1, 2})});
  solver.add(1, {.hops = on({0})});
  solver.add(2, {.hops = on({1})});
  solver.add(3, {.hops = on({2})});
  solver.add(4, {.hops = on({2})});
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(0), 3);   // a third of 9
  EXPECT_DOUBLE_EQ(solver.rate(1), 9);   // 12 - 3
  EXPECT_DOUBLE_EQ(solver.rate(2), 27);  // 30 - 3
  EXPECT_DOUBLE_EQ(solver.rate(3), 3);
  EXPECT_TRUE(solver.is_busy(0));
}

TEST(MaxMin, LooksOnlyAtWhatCanChange) {
  // Two halves that share no link: what happens in one is no change in the other.
  MaxMin solver({10, 10, 10, 10});
  for (uint32_t flow = 0; flow < 8; ++flow) solver.add(flow, {.hops = on({flow % 2 * 2, flow % 2 * 2 + 1})});
  solver.solve();
  solver.remove(0);
  solver.solve();
  for (const uint32_t link : solver.touched()) EXPECT_LT(link, 2u);
  ASSERT_EQ(solver.changed().size(), 1u);
  EXPECT_EQ(solver.changed()[0], solver.bottleneck(2));
  EXPECT_THAT(solver.moved(), ::testing::IsEmpty());
  EXPECT_DOUBLE_EQ(solver.rate(2), 10.0 / 3);
  EXPECT_DOUBLE_EQ(solver.rate(1), 10.0 / 4);
}

TEST(MaxMin, LeavesSlowerFlowsAloneWhenAQuickOneEnds) {
  MaxMin solver({3, 100});
  for (uint32_t flow = 0; flow < 3; ++flow) solver.add(flow, {.hops = on({0, 1})});  // 1 each
  for (uint32_t flow = 3; flow < 9; ++flow) solver.add(flow, {.hops = on({1})});     // 97 / 6 each
  solver.solve();
  solver.remove(8);
  solver.solve();
  EXPECT_THAT(solver.changed(), ::testing::ElementsAre(1));
  EXPECT_EQ(solver.bottleneck(3), 1u);
  EXPECT_EQ(solver.bottleneck(0), 0u);
  EXPECT_DOUBLE_EQ(solver.rate(3), 97.0 / 5);
}

TEST(MaxMin, SaysWhoIsHeldByAnotherLinkThanBefore) {
  MaxMin solver({10, 6});
  for (uint32_t flow = 0; flow < 4; ++flow) solver.add(flow, {.hops = on({0})});
  solver.add(4, {.hops = on({0, 1})});
  solver.solve();
  EXPECT_EQ(solver.bottleneck(4), 0u);
  EXPECT_DOUBLE_EQ(solver.rate(4), 2);
  solver.set_capacity(1, 1);
  solver.solve();
  ASSERT_EQ(solver.moved().size(), 1u);
  EXPECT_EQ(solver.moved()[0].flow, 4u);
  EXPECT_EQ(solver.moved()[0].from, 0u);
  EXPECT_EQ(solver.bottleneck(4), 1u);
  EXPECT_DOUBLE_EQ(solver.rate(4), 1);
  EXPECT_DOUBLE_EQ(solver.rate(0), 9.0 / 4);
}

TEST(MaxMin, TakesACapForALinkOfItsOwn) {
  MaxMin solver({10});
  solver.add(0, {.hops = on({0}), .weight = 2, .cap = 4});
  solver.add(1, {.hops = on({0})});
  solver.add(2, {.hops = {}, .cap = 3, .multiplicity = 5});
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(0), 4);
  EXPECT_GE(solver.bottleneck(0), solver.link_count());
  EXPECT_DOUBLE_EQ(solver.rate(1), 6);
  EXPECT_DOUBLE_EQ(solver.rate(2), 3);
  EXPECT_EQ(solver.hops(0).size(), 1u);
  solver.remove(0);
  solver.add(0, {.hops = on({0}), .cap = 7});  // the place of the cap before
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(0), 5);
}

TEST(MaxMin, KeepsLightFlowsRightBesideHeavyOnes) {
  // Sums of uses cancel: what is left after the heavy flow is below the rounding of the sum.
  MaxMin solver({1e9, 10});
  solver.add(0, {.hops = on({0, 1}), .weight = 1e9});
  solver.add(1, {.hops = on({0}), .weight = 1e-9});
  solver.add(2, {.hops = on({0}), .weight = 3e-9});
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(0), 10);
  EXPECT_NEAR(solver.rate(1), (1e9 - 10) / 4, 1);
  EXPECT_NEAR(solver.rate(2), (1e9 - 10) * 3 / 4, 1);
}

}  // namespace
}  // namespace banyan::predict
