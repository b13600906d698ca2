#include "banyan/service/session/rate_gate.h"

#include "banyan/run/engine/direct_plan.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Time = RateGate::Time;

constexpr uint64_t kElements = 1 << 20;  // that this rank sends in a call
constexpr uint64_t kSlice = 1 << 14;

class RateGateTest : public ::testing::Test {
 protected:
  RateGateTest() {
    plan_.rank = 0;
    plan_.ranks = 2;
    plan_.streams_to.resize(2);
    run::Role role{.length = kElements};
    role.out_children.push_back(plan_.add_stream_to(1));
    plan_.roles.push_back(role);
  }

  bool offer(uint64_t number, uint64_t elements = kSlice) {
    return gate_.admit({.sequence = number, .plan = &plan_, .elements = elements});
  }
  // How many slices of this call leave until then, asked again whenever the gate says.
  size_t slices_until(uint64_t number, Time end) {
    size_t slices = 0;
    while (now_ < end) {
      if (offer(number)) {
        ++slices;
        continue;
      }
      now_ = std::min(end, gate_.opens_at().value_or(end));
    }
    return slices;
  }

  Time now_ = std::chrono::seconds(5);
  run::RankPlan plan_;
  RateGate gate_{[this] { return now_; }};
};

TEST_F(RateGateTest, LetsEverythingThroughWithoutARate) {
  gate_.begin(1, 1e6);
  for (size_t i = 0; i < kElements / kSlice; ++i) EXPECT_TRUE(offer(1));
  EXPECT_FALSE(gate_.opens_at());
  EXPECT_DOUBLE_EQ(gate_.done(1), 1);
}

// The call puts 8 MB on its busiest link, of which this rank's slices are 64 equal parts: 125 kB each.
TEST_F(RateGateTest, CallsGoAtTheRateOfTheirBusiestLink) {
  constexpr uint64_t kRate = 25'000'000;
  gate_.set_rate(kRate);
  gate_.begin(1, 8e6);
  const size_t slices = slices_until(1, now_ + milliseconds(100));
  // 2.5 MB in 100 ms, and the burst and one slice more at most.
  EXPECT_GE(slices, 20u);
  EXPECT_LE(slices, 20u + 2);
}

TEST_F(RateGateTest, FollowsARateThatChangesDuringACall) {
  gate_.set_rate(10'000'000);
  gate_.begin(1, 8e6);
  slices_until(1, now_ + milliseconds(50));
  gate_.set_rate(40'000'000);
  const size_t slices = slices_until(1, now_ + milliseconds(50));
  EXPECT_GE(slices, 15u);
  EXPECT_LE(slices, 17u);
}

TEST_F(RateGateTest, ForgetsARateThatIsNotSaidAgain) {
  gate_.set_rate(1000);
  gate_.begin(1, 8e6);
  while (offer(1)) {
  }
  const Time opens = gate_.opens_at().value();
  EXPECT_GT(opens, now_ + std::chrono::seconds(10));
  now_ += RateGate::kValid - milliseconds(1);
  EXPECT_FALSE(offer(1));
  now_ += milliseconds(1);
  EXPECT_TRUE(offer(1));
}

TEST_F(RateGateTest, SaysWhenItOpensUntilItHas) {
  gate_.set_rate(25'000'000);
  gate_.begin(1, 8e6);
  while (offer(1)) {
  }
  const auto opens = gate_.opens_at();
  ASSERT_TRUE(opens);
  EXPECT_EQ(gate_.opens_at(), opens);
  now_ = *opens - microseconds(1);
  EXPECT_FALSE(offer(1));
  EXPECT_EQ(gate_.opens_at(), opens);
  now_ = *opens;
  EXPECT_TRUE(offer(1));
  EXPECT_FALSE(gate_.opens_at());
}

TEST_F(RateGateTest, HoldsBackNothingThatUsesNoLinkOrIsUnknown) {
  gate_.set_rate(1);
  gate_.begin(1, 0);
  gate_.begin(2, 8e6);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(offer(1));
  EXPECT_TRUE(offer(2));
  EXPECT_FALSE(offer(2));
  gate_.end(2);
  EXPECT_TRUE(offer(2));
}

TEST_F(RateGateTest, CallsGoNoFasterThanTheirLinks) {
  gate_.begin(1, 8e6, 25'000'000);
  EXPECT_LE(slices_until(1, now_ + milliseconds(100)), 22u);
  gate_.end(1);
  gate_.set_rate(5'000'000);
  gate_.begin(2, 8e6, 25'000'000);
  now_ += milliseconds(500);
  EXPECT_LE(slices_until(2, now_ + milliseconds(100)), 6u);
  gate_.set_rate(VirtualQueue::kUnlimited);
  gate_.begin(3, 8e6, 25'000'000);
  now_ += milliseconds(500);
  EXPECT_GE(slices_until(3, now_ + milliseconds(100)), 20u);
}

TEST_F(RateGateTest, SaysHowFarACallHasCome) {
  gate_.begin(1, 8e6);
  EXPECT_DOUBLE_EQ(gate_.done(1), 0);
  offer(1, kElements / 4);
  EXPECT_DOUBLE_EQ(gate_.done(1), 0.25);
  EXPECT_DOUBLE_EQ(gate_.done(2), 0);
}

}  // namespace
}  // namespace banyan::service
