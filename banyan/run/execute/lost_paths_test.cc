#include "banyan/run/execute/lost_paths.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

const LostPaths::PeerPath kOne{.peer = 3, .path = {"10.0.0.1", "10.0.0.2"}, .cables = {4, 5}};
const LostPaths::PeerPath kOther{.peer = 2, .path = {"10.0.0.1", "10.0.0.9"}, .cables = {6, 5, 7}};
constexpr LostPaths::TimePoint kStart{};

TEST(LostPaths, AreTriedAfterAPauseAndOneAtATime) {
  LostPaths paths;
  EXPECT_TRUE(paths.empty());
  paths.lose({5}, {kOne, kOther}, kStart);
  paths.keep({5});
  EXPECT_THAT(paths.due(kStart + LostPaths::kFirstPause - milliseconds(1)), IsEmpty());
  EXPECT_THAT(paths.due(kStart + LostPaths::kFirstPause), SizeIs(2));
  EXPECT_THAT(paths.due(kStart + LostPaths::kLongestPause), IsEmpty()) << "both are being tried";
  paths.failed(kOther.peer, kOther.path, kStart + LostPaths::kFirstPause);
  const auto again = paths.due(kStart + 2 * LostPaths::kFirstPause);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again.front().peer, kOther.peer);
  EXPECT_THAT(paths.worked(kOne.peer, kOne.path, kStart + 2 * LostPaths::kFirstPause), ElementsAre(5u));
  EXPECT_THAT(paths.due(kStart + 3 * LostPaths::kFirstPause - milliseconds(1)), IsEmpty());
  EXPECT_THAT(paths.due(kStart + 3 * LostPaths::kFirstPause), SizeIs(1)) << "plans still do without";
  paths.keep({});
  EXPECT_TRUE(paths.empty());
}

TEST(LostPaths, SayOnlyWhatPlansDoWithout) {
  LostPaths paths;
  paths.lose({5, 7}, {kOne, kOther}, kStart);
  paths.keep({5, 7});
  EXPECT_THAT(paths.worked(kOther.peer, kOther.path, kStart), ElementsAre(5u, 7u)) << "and not 6, which was never lost";
  paths.keep({7});
  EXPECT_THAT(paths.worked(kOther.peer, kOther.path, kStart), ElementsAre(7u));
  EXPECT_THAT(paths.worked(kOne.peer, kOne.path, kStart), IsEmpty()) << "it crosses 5 only, which is used again";
}

TEST(LostPaths, WaitLongerForWhatComesAndGoes) {
  LostPaths paths;
  LostPaths::TimePoint now = kStart;
  for (milliseconds pause = LostPaths::kFirstPause; pause < 2 * LostPaths::kLongestPause; pause *= 2) {
    paths.lose({5}, {kOne}, now);
    paths.keep({5});
    const milliseconds expected = std::min(pause, LostPaths::kLongestPause);
    EXPECT_THAT(paths.due(now + expected - milliseconds(1)), IsEmpty()) << pause.count();
    now += expected;
    EXPECT_THAT(paths.due(now), SizeIs(1)) << pause.count();
    EXPECT_THAT(paths.worked(kOne.peer, kOne.path, now), ElementsAre(5u));
    paths.keep({});
  }
  // Another cable's pause is its own.
  paths.lose({7}, {kOther}, now);
  paths.keep({7});
  EXPECT_THAT(paths.due(now + LostPaths::kFirstPause), SizeIs(1));
}

TEST(LostPaths, AreNotMoreThanCanBeTried) {
  LostPaths paths;
  std::vector<LostPaths::PeerPath> many;
  for (uint32_t peer = 0; peer < 1000; ++peer) many.push_back({.peer = peer, .path = {}, .cables = {5}});
  paths.lose({5}, many, kStart);
  paths.keep({5});
  EXPECT_THAT(paths.due(kStart + LostPaths::kFirstPause), SizeIs(LostPaths::kMost));
}

}  // namespace
}  // namespace banyan::run
