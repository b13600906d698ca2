#include "banyan/predict/fluid/bottleneck_clocks.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

constexpr int64_t kSecond = 1'000'000'000'000;

std::map<uint32_t, int64_t> up_to(BottleneckClocks& clocks, int64_t limit) {
  std::map<uint32_t, int64_t> ends;
  clocks.visit_up_to(limit, [&](uint32_t flow, int64_t end) { ends[flow] = end; });
  return ends;
}

TEST(BottleneckClocks, EndsFlowsByTheLevelOfTheirBottleneck) {
  BottleneckClocks clocks;
  clocks.resize(3, 2);
  clocks.hold(0, 0, 10, 0);
  clocks.hold(1, 0, 4, 0);
  clocks.hold(2, 1, 100, 0);
  EXPECT_EQ(clocks.first_end(), BottleneckClocks::kNever);  // nothing moves
  clocks.set_level(0, 2, 0);
  clocks.set_level(1, 5, 0);
  EXPECT_EQ(clocks.first_end(), 2 * kSecond);
  EXPECT_THAT(up_to(clocks, 5 * kSecond),
              ::testing::ElementsAre(::testing::Pair(0, 5 * kSecond), ::testing::Pair(1, 2 * kSecond)));
  EXPECT_DOUBLE_EQ(clocks.release(1, 2 * kSecond), 0);
  clocks.set_level(0, 1, 2 * kSecond);  // flow 0 has 6 left
  EXPECT_EQ(clocks.first_end(), 8 * kSecond);
  EXPECT_DOUBLE_EQ(clocks.left(0, 4 * kSecond), 4);
  clocks.set_level(0, 0, 4 * kSecond);
  EXPECT_EQ(clocks.first_end(), 20 * kSecond);
  EXPECT_DOUBLE_EQ(clocks.left(0, 9 * kSecond), 4);
}

TEST(BottleneckClocks, LetsEndsPassAndSaysByHowMuch) {
  BottleneckClocks clocks;
  clocks.resize(1, 1);
  clocks.set_level(0, 1, 0);
  clocks.hold(0, 0, 3, 0);
  EXPECT_DOUBLE_EQ(clocks.left(0, 4 * kSecond), -1);
  clocks.set_level(0, 0, 4 * kSecond);
  EXPECT_EQ(clocks.first_end(), 4 * kSecond);  // at once
  EXPECT_DOUBLE_EQ(clocks.release(0, 4 * kSecond), -1);
}

TEST(BottleneckClocks, BeginsAnewBeforeItsRoundingShows) {
  for (const double weight : {1.0, 1e6}) {
    BottleneckClocks clocks;
    clocks.resize(2, 1);
    clocks.set_level(0, 1e11 / weight, 0);
    clocks.hold(0, 0, 4e15 / weight, 0);  // 40,000 s
    int64_t now = 0;
    // Small flows come and go beside it; each takes 1 ns to the picosecond, however far the clock is.
    for (int i = 0; i < 1000; ++i) {
      now += 7 * kSecond;
      clocks.hold(1, 0, 100 / weight, now);
      ASSERT_EQ(clocks.first_end(), now + 1000) << i << ", weight " << weight;
      clocks.release(1, now + 1000);
    }
    // Its own work has been counted down a thousand times, each right to one part in 10^16 of what was left.
    EXPECT_NEAR(static_cast<double>(clocks.first_end()), 40'000e12, 1e4) << weight;
  }
}

// Against flows that are counted one by one.
TEST(BottleneckClocks, AgreesWithFlowsThatAreCountedOneByOne) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    std::mt19937_64 random(seed);
    constexpr uint32_t kFlows = 40, kBottlenecks = 4;
    struct Flow {
      uint32_t bottleneck;
      double left;
    };
    std::map<uint32_t, Flow> flows;
    std::vector<double> levels(kBottlenecks, 0);
    BottleneckClocks clocks;
    clocks.resize(kFlows, kBottlenecks);
    int64_t now = 0;
    for (int step = 0; step < 400; ++step) {
      const int64_t passes = static_cast<int64_t>(random() % 1000) * 1'000'000;
      now += passes;
      for (auto& [id, flow] : flows) flow.left -= levels[flow.bottleneck] * static_cast<double>(passes) * 1e-12;
      const uint32_t flow = static_cast<uint32_t>(random() % kFlows),
                     bottleneck = static_cast<uint32_t>(random() % kBottlenecks);
      if (random() % 3 == 0) {
        levels[bottleneck] = static_cast<double>(random() % 5) * 1e9;
        clocks.set_level(bottleneck, levels[bottleneck], now);
      } else if (flows.count(flow) != 0) {
        ASSERT_NEAR(clocks.release(flow, now), flows[flow].left, 1e-3) << "seed " << seed;
        flows.erase(flow);
      } else {
        flows[flow] = {bottleneck, static_cast<double>(1 + random() % 10'000'000)};
        clocks.hold(flow, bottleneck, flows[flow].left, now);
      }
      double first = BottleneckClocks::kNever;
      for (const auto& [id, f] : flows) {
        ASSERT_NEAR(clocks.left(id, now), f.left, 1e-3) << "seed " << seed;
        const double level = levels[f.bottleneck];
        if (level > 0) first = std::min(first, static_cast<double>(now) + f.left / level * 1e12);
        if (level == 0 && f.left <= 0) first = std::min(first, static_cast<double>(now));
      }
      // Of one whose end was let pass by a bottleneck that stood still since, the end is when it began to stand.
      if (first > static_cast<double>(now)) {
        ASSERT_NEAR(static_cast<double>(clocks.first_end()), first, 2) << "seed " << seed << ", step " << step;
      } else {
        ASSERT_LE(clocks.first_end(), now) << "seed " << seed << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace banyan::predict
