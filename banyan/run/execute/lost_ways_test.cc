#include "banyan/run/execute/lost_ways.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

const LostWays::Way kOne{.peer = 3, .path = {"10.0.0.1", "10.0.0.2"}, .cables = {4, 5}};
const LostWays::Way kOther{.peer = 2, .path = {"10.0.0.1", "10.0.0.9"}, .cables = {6, 5, 7}};
constexpr LostWays::TimePoint kStart{};

TEST(LostWays, AreTriedAfterAPauseAndOneAtATime) {
  LostWays ways;
  EXPECT_TRUE(ways.empty());
  ways.lose({5}, {kOne, kOther}, kStart);
  ways.keep({5});
  EXPECT_THAT(ways.due(kStart + LostWays::kFirstPause - milliseconds(1)), IsEmpty());
  EXPECT_THAT(ways.due(kStart + LostWays::kFirstPause), SizeIs(2));
  EXPECT_THAT(ways.due(kStart + LostWays::kLongestPause), IsEmpty()) << "both are being tried";
  ways.failed(kOther.peer, kOther.path, kStart + LostWays::kFirstPause);
  const auto again = ways.due(kStart + 2 * LostWays::kFirstPause);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again.front().peer, kOther.peer);
  EXPECT_THAT(ways.worked(kOne.peer, kOne.path, kStart + 2 * LostWays::kFirstPause), ElementsAre(5u));
  EXPECT_THAT(ways.due(kStart + 3 * LostWays::kFirstPause - milliseconds(1)), IsEmpty());
  EXPECT_THAT(ways.due(kStart + 3 * LostWays::kFirstPause), SizeIs(1)) << "plans still do without";
  ways.keep({});
  EXPECT_TRUE(ways.empty());
}

TEST(LostWays, SayOnlyWhatPlansDoWithout) {
  LostWays ways;
  ways.lose({5, 7}, {kOne, kOther}, kStart);
  ways.keep({5, 7});
  EXPECT_THAT(ways.worked(kOther.peer, kOther.path, kStart), ElementsAre(5u, 7u)) << "and not 6, which was never lost";
  ways.keep({7});
  EXPECT_THAT(ways.worked(kOther.peer, kOther.path, kStart), ElementsAre(7u));
  EXPECT_THAT(ways.worked(kOne.peer, kOne.path, kStart), IsEmpty()) << "it crosses 5 only, which is used again";
}

TEST(LostWays, WaitLongerForWhatComesAndGoes) {
  LostWays ways;
  LostWays::TimePoint now = kStart;
  for (milliseconds pause = LostWays::kFirstPause; pause < 2 * LostWays::kLongestPause; pause *= 2) {
    ways.lose({5}, {kOne}, now);
    ways.keep({5});
    const milliseconds expected = std::min(pause, LostWays::kLongestPause);
    EXPECT_THAT(ways.due(now + expected - milliseconds(1)), IsEmpty()) << pause.count();
    now += expected;
    EXPECT_THAT(ways.due(now), SizeIs(1)) << pause.count();
    EXPECT_THAT(ways.worked(kOne.peer, kOne.path, now), ElementsAre(5u));
    ways.keep({});
  }
  // Another cable's pause is its own.
  ways.lose({7}, {kOther}, now);
  ways.keep({7});
  EXPECT_THAT(ways.due(now + LostWays::kFirstPause), SizeIs(1));
}

TEST(LostWays, AreNotMoreThanCanBeTried) {
  LostWays ways;
  std::vector<LostWays::Way> many;
  for (uint32_t peer = 0; peer < 1000; ++peer) many.push_back({.peer = peer, .path = {}, .cables = {5}});
  ways.lose({5}, many, kStart);
  ways.keep({5});
  EXPECT_THAT(ways.due(kStart + LostWays::kFirstPause), SizeIs(LostWays::kMost));
}

}  // namespace
}  // namespace banyan::run
