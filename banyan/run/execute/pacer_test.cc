#include "banyan/run/execute/pacer.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using ::testing::Pair;

// A pacer whose clock the test turns, and the rates that it sets.
struct Fixture {
  RankPlan plan(uint64_t first, uint64_t second, double seconds) const {
    RankPlan plan{.rank = 0, .ranks = 2, .busy_seconds = seconds};
    plan.lanes = {{.peer = 1, .lane = 0, .bytes_per_second = first},
                  {.peer = 1, .lane = 1, .bytes_per_second = second}};
    return plan;
  }
  // Of lane l on channel 10 + l.
  void offer(uint64_t sequence, const RankPlan& plan, uint32_t lane) {
    EXPECT_TRUE(pacer.admit({.sequence = sequence, .plan = &plan, .channel = 10 + lane, .peer = 1, .lane = lane}));
  }
  std::vector<std::pair<uint32_t, uint64_t>> taken() { return std::exchange(rates, {}); }

  std::vector<std::pair<uint32_t, uint64_t>> rates;  // channel and bytes per second
  Pacer::Clock::time_point now{std::chrono::seconds(1000)};
  Pacer pacer{[this](uint32_t channel, uint64_t rate) { rates.emplace_back(channel, rate); }, [this] { return now; }};
};

TEST(Pacer, SetsTheRateOfTheCallWhoseTurnItIsOnEachChannel) {
  Fixture fixture;
  const RankPlan first = fixture.plan(100, 200, 1), second = fixture.plan(300, 0, 1);
  fixture.offer(1, first, 0);
  fixture.offer(1, first, 1);
  fixture.offer(1, first, 0);
  EXPECT_THAT(fixture.taken(), ElementsAre(Pair(10, 100), Pair(11, 200)));
  // The second one has its turn on one channel while the first still sends on the other.
  fixture.offer(2, second, 0);
  fixture.offer(1, first, 1);
  EXPECT_THAT(fixture.taken(), ElementsAre(Pair(10, 300)));
  fixture.offer(2, second, 1);
  EXPECT_THAT(fixture.taken(), ElementsAre(Pair(11, 0)));
  fixture.pacer.end(1);
  fixture.pacer.end(2);
  EXPECT_THAT(fixture.taken(), IsEmpty());
}

TEST(Pacer, SetsNothingAnewForCallsOfEqualRates) {
  Fixture fixture;
  const RankPlan plan = fixture.plan(100, 200, 1);
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) {
    fixture.offer(sequence, plan, 0);
    fixture.pacer.end(sequence);
  }
  EXPECT_THAT(fixture.taken(), ElementsAre(Pair(10, 100)));
}

TEST(Pacer, HurriesWhatIsLateAndNothingElse) {
  Fixture fixture;
  const RankPlan plan = fixture.plan(100, 200, 1);
  fixture.offer(1, plan, 0);
  fixture.offer(1, plan, 1);
  fixture.offer(2, plan, 0);
  fixture.taken();
  fixture.now += milliseconds(849);
  fixture.pacer.look_at_clock();
  EXPECT_THAT(fixture.taken(), IsEmpty());
  fixture.now += milliseconds(2);
  fixture.pacer.look_at_clock();
  EXPECT_THAT(fixture.taken(), ElementsAre(Pair(11, 0))) << "the second one has its time after the first";
  fixture.now += milliseconds(850);
  fixture.pacer.look_at_clock();
  EXPECT_THAT(fixture.taken(), ElementsAre(Pair(10, 0)));
  fixture.offer(2, plan, 1);
  EXPECT_THAT(fixture.taken(), IsEmpty()) << "late on all channels";
  fixture.offer(3, plan, 0);
  EXPECT_THAT(fixture.taken(), ElementsAre(Pair(10, 100)));
}

TEST(Pacer, BeginsAnewOnOtherChannels) {
  Fixture fixture;
  const RankPlan plan = fixture.plan(100, 200, 1);
  fixture.offer(1, plan, 0);
  fixture.pacer.forget_all();
  fixture.offer(1, plan, 0);
  EXPECT_THAT(fixture.taken(), ElementsAre(Pair(10, 100), Pair(10, 100)));
}

}  // namespace
}  // namespace banyan::run
