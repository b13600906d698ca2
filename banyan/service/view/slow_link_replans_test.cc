#include "banyan/service/view/slow_link_replans.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using namespace std::chrono_literals;
using ::testing::Pair;
using Time = SlowLinkReplans::Time;
using Change = SlowLinkReplans::Change;

constexpr Time kPause = 400ms;

SlowLink slow(std::vector<std::string> links, uint64_t rate) {
  return {.words = "slow", .links = std::move(links), .bytes_per_second = rate};
}

// A look each kPause.
class SlowLinkReplansTest : public ::testing::Test {
 protected:
  std::vector<Change> look(const std::vector<SlowLink>& found) {
    now_ += kPause;
    return replans_.look(found, communicators_, now_);
  }
  // All changes meanwhile.
  std::vector<Change> pass(Time time, const std::vector<SlowLink>& found) {
    std::vector<Change> all;
    for (const Time end = now_ + time; now_ < end;) {
      for (Change& each : look(found)) all.push_back(std::move(each));
    }
    return all;
  }

  SlowLinkReplans replans_;
  std::set<std::string> communicators_ = {"a", "b"};
  Time now_ = 1h;
};

TEST_F(SlowLinkReplansTest, PlanAroundALinkThatIsNamedForSomeTimeWithinTwoSeconds) {
  EXPECT_THAT(pass(kPause, {slow({"x"}, 2400)}), IsEmpty()) << "one look may be by chance";
  EXPECT_THAT(look({}), IsEmpty());
  const Time begin = now_;
  std::vector<Change> changes;
  while (changes.empty() && now_ - begin < 10s) changes = look({slow({"x"}, 2400)});
  EXPECT_LE(now_ - begin, 2s);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].communicator, "") << "all";
  EXPECT_THAT(changes[0].rates, ElementsAre(Pair("x", 2400)));
  EXPECT_THAT(pass(1min, {slow({"x"}, 2300)}), IsEmpty()) << "it is as slow as it is planned for";
  ASSERT_THAT(replans_.planned(), SizeIs(1));
  EXPECT_EQ(replans_.planned()[0].bytes_per_second, 2400u);
}

TEST_F(SlowLinkReplansTest, PlanForAllLinksThatCannotBeToldApartAndForNoneThatIsNotKnown) {
  const std::vector<Change> changes = pass(3s, {slow({"x", "y"}, 70), slow({}, 5), slow({"z"}, 0)});
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_THAT(changes[0].rates, ElementsAre(Pair("x", 70), Pair("y", 70)));
}

TEST_F(SlowLinkReplansTest, PlanAnewForALinkThatCarriesLessThanHalfOfThat) {
  pass(3s, {slow({"x"}, 1000)});
  EXPECT_THAT(pass(3s, {slow({"x"}, 501)}), IsEmpty());
  const std::vector<Change> changes = pass(3s, {slow({"x"}, 400)});
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_THAT(changes[0].rates, ElementsAre(Pair("x", 400)));
}

TEST_F(SlowLinkReplansTest, TryALinkAgainLaterEachTimeAndForgetOneThatIsWell) {
  pass(3s, {slow({"x"}, 1000)});
  for (Time wait = SlowLinkReplans::kRetry; wait <= 4 * SlowLinkReplans::kRetry; wait *= 2) {
    EXPECT_THAT(pass(wait - 5s, {}), IsEmpty());
    const std::vector<Change> tried = pass(10s, {});
    ASSERT_THAT(tried, SizeIs(1));
    EXPECT_THAT(tried[0].rates, ElementsAre(Pair("x", std::nullopt)));
    EXPECT_THAT(pass(3s, {slow({"x"}, 1000)}), SizeIs(1)) << "it is slow still";
    pass(SlowLinkReplans::kPeriod, {slow({"x"}, 1000)});
  }
  pass(1h, {});
  EXPECT_THAT(replans_.planned(), IsEmpty());
  pass(1h, {});
  pass(3s, {slow({"x"}, 1000)});
  EXPECT_THAT(pass(SlowLinkReplans::kRetry + 5s, {}), SizeIs(1)) << "as if it had never been slow";
}

// In any ten minutes, whatever the link does and whether it is seen while little goes over it.
TEST_F(SlowLinkReplansTest, ChangePlansAtMostFiveTimesForALinkWhoseRateChangesAHundredTimes) {
  const auto seed = static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    SlowLinkReplans replans;
    std::vector<Time> changed;
    Time now = 1h, next = now;
    const bool is_regular = round == 0, shows_itself = round % 2 == 1;
    uint64_t rate = 0;  // 0: it is well
    bool is_around = false;
    for (const Time end = now + 30min; now < end; now += kPause) {
      if (now >= next) {
        rate = rate == 0 || random() % 3 == 0 ? 1000 >> random() % 8 : 0;
        next += is_regular ? Time(6s) : 1ms * static_cast<int64_t>(random() % 12'000);
      }
      const bool is_seen = rate > 0 && (!is_around || (shows_itself && random() % 2 == 0));
      const std::vector<SlowLink> found = is_seen ? std::vector{slow({"x"}, rate)} : std::vector<SlowLink>();
      for (const Change& each : replans.look(found, {}, now)) {
        changed.push_back(now);
        is_around = each.rates.at("x").has_value();
      }
    }
    ASSERT_FALSE(changed.empty());
    for (size_t i = SlowLinkReplans::kMostChanges; i < changed.size(); ++i) {
      ASSERT_GE(changed[i] - changed[i - SlowLinkReplans::kMostChanges], 10min) << "round " << round;
    }
    if (is_regular) {
      EXPECT_TRUE(is_around) << "it ends on the safe side";
    }
  }
}

TEST_F(SlowLinkReplansTest, TellCommunicatorsThatAreOpenedLater) {
  pass(3s, {slow({"x"}, 1000)});
  EXPECT_THAT(look({}), IsEmpty());
  communicators_ = {"b", "c"};
  const std::vector<Change> changes = look({});
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].communicator, "c");
  EXPECT_THAT(changes[0].rates, ElementsAre(Pair("x", 1000)));
  EXPECT_THAT(look({}), IsEmpty());
}

TEST_F(SlowLinkReplansTest, LeaveALinkAloneOfWhichAnOperatorHasSaidSomething) {
  replans_.leave("x");
  EXPECT_THAT(pass(5min, {slow({"x"}, 1000)}), IsEmpty());
  pass(3s, {slow({"y"}, 1000)});
  replans_.leave("y");
  EXPECT_THAT(replans_.planned(), IsEmpty());
  EXPECT_THAT(pass(5min, {slow({"y"}, 1000)}), IsEmpty());
}

TEST_F(SlowLinkReplansTest, GoOnWhereAnotherDaemonHasBegun) {
  replans_.record({{"x", 1000}}, now_);
  const std::vector<Change> told = pass(1min, {slow({"x"}, 900)});
  ASSERT_THAT(told, SizeIs(2)) << "communicators of which it does not know whether they were told";
  EXPECT_EQ(told[0].communicator + told[1].communicator, "ab");
  EXPECT_THAT(pass(SlowLinkReplans::kRetry + 5s, {}), SizeIs(1)) << "the try";
}

TEST_F(SlowLinkReplansTest, CountNoLooksTogetherThatAreFarApart) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(look({slow({"x"}, 1000)}), IsEmpty());
    now_ += SlowLinkReplans::kGap + 1s;
  }
}

}  // namespace
}  // namespace banyan::service
