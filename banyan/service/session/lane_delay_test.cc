#include "banyan/service/session/lane_delay.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using namespace std::chrono_literals;

// What TCP_INFO said of a lane between two looks, in a lab: two ranks, links of 200 Mb/s, one of which had a tenth of
// its rate by tbf; allreduce again and again.
struct Recorded {
  uint64_t bytes = 0;
  microseconds busy{0}, round_trip{0};
  uint32_t under_way = 1;  // packets at the look
  microseconds least_round_trip = 6us;
};
constexpr double kMost = 23.5e6;  // of payload
constexpr auto kPause = 20ms;

class LaneDelayTest : public ::testing::Test {
 protected:
  // These again and again; whether it is delayed at the end.
  bool is_delayed_after(const std::vector<Recorded>& recorded, double most = kMost, int looks = 40) {
    LaneDelay delay;
    run::LaneLoad load{.arrived = 70'000'000, .busy = 9s, .receiver_was_full = 1s};  // long before
    delay.look(load, 10s);
    for (int i = 0; i < looks; ++i) {
      const Recorded& each = recorded[static_cast<size_t>(i) % recorded.size()];
      load.arrived += each.bytes;
      load.busy += each.busy;
      load.under_way = each.under_way;
      load.round_trip = each.round_trip;
      load.least_round_trip = each.least_round_trip;
      delay.look(load, kPause);
    }
    return delay.is_delayed(most);
  }
};

const std::vector<Recorded> kSmall = {
    {200'000, 11'400us, 44us}, {202'000, 10'300us, 72us}, {190'000, 13'000us, 177us}, {150'000, 12'000us, 727us}};
const std::vector<Recorded> kSmallAndSlow = {
    {48'900, 16'600us, 1073us}, {49'500, 17'000us, 1169us}, {50'100, 20'000us, 1333us}, {44'000, 16'000us, 980us}};
// The same with links that are well, where compilers take the cores from the daemons.
const std::vector<Recorded> kSmallAndStarved = {
    {42'000, 10'000us, 609us}, {40'000, 9'000us, 290us}, {44'000, 11'000us, 1400us}, {43'000, 10'500us, 700us}};
const std::vector<Recorded> kLarge = {{357'000, 20'000us, 737us, 3}, {350'000, 16'000us, 1096us, 1}};
const std::vector<Recorded> kLargeAndSlow = {{49'700, 20'000us, 31'754us, 9}, {50'400, 20'000us, 21'051us, 7}};

TEST_F(LaneDelayTest, IsSeenByTheRoundTripsOfCallsOf4kBAnd400kB) {
  EXPECT_TRUE(is_delayed_after(kSmallAndSlow));
  EXPECT_TRUE(is_delayed_after(kLargeAndSlow));
  EXPECT_FALSE(is_delayed_after(kSmall));
  EXPECT_FALSE(is_delayed_after(kLarge));
  EXPECT_FALSE(is_delayed_after(kSmallAndStarved));
}

TEST_F(LaneDelayTest, IsKnownAfterSomeLooksOnly) {
  EXPECT_FALSE(is_delayed_after(kSmallAndSlow, kMost, LaneDelay::kLooks - 1));
  EXPECT_TRUE(is_delayed_after(kSmallAndSlow, kMost, LaneDelay::kLooks));
}

TEST_F(LaneDelayTest, IsNoneWhereNoMoreIsAllowedOrNothingIsKnownOfTheLinks) {
  EXPECT_FALSE(is_delayed_after(kLargeAndSlow, 2.5e6)) << "it gets all that it may have";
  EXPECT_FALSE(is_delayed_after(kLargeAndSlow, 0));
}

// Between hosts that are far away from each other most of the time is the way.
TEST_F(LaneDelayTest, IsNoneWhereTheWayIsLong) {
  EXPECT_FALSE(is_delayed_after({{50'000, 20'000us, 31'000us, 9, 30'000us}}));
}

// A rank that waits in each step for one that is late: what it has sent is acknowledged 40 ms later, and then calls
// follow quickly.
TEST_F(LaneDelayTest, IsNoneWhereTheReceiverPutsItsAcknowledgementsOff) {
  EXPECT_FALSE(is_delayed_after({{0, 20'000us, 5000us, 1}, {0, 20'000us, 5000us, 1}, {20'000, 9000us, 2000us, 0}}));
  EXPECT_FALSE(is_delayed_after({{0, 20'000us, 5000us, 2}, {4000, 20'000us, 5000us, 2}}));
  EXPECT_TRUE(is_delayed_after({{0, 20'000us, 90'000us, 5}, {9000, 20'000us, 90'000us, 5}}))
      << "so many packets nobody holds back: the link carries hardly anything";
}

TEST_F(LaneDelayTest, IsNoneWhereAHostIsBusyNowAndThen) {
  std::vector<Recorded> busy(5, {20'000, 15'000us, 4000us});
  EXPECT_TRUE(is_delayed_after(busy));
  busy.push_back({60'000, 10'000us, 60us});
  EXPECT_FALSE(is_delayed_after(busy)) << "one round trip of some is as it should be";
}

TEST_F(LaneDelayTest, IsNoneOfASenderThatHasLittleToSend) {
  EXPECT_FALSE(is_delayed_after({{40'000, 3000us, 1900us}})) << "it is busy for a part of the time";
  EXPECT_FALSE(is_delayed_after({{3000, 20'000us, 1800us}})) << "nobody knows what so small messages wait for";
}

}  // namespace
}  // namespace banyan::service
