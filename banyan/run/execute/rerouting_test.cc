#include "banyan/run/execute/rerouting.h"

#include <gmock/gmock.h>

namespace banyan::run {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LostCables, AreThoseThatNoLaneWasHeardOverSince) {
  EXPECT_THAT(lost_cables({{.cables = {0, 5, 1}, .is_lost = true, .silent_ms = 2100},
                           {.cables = {0, 6, 2}, .is_lost = false, .silent_ms = 3},
                           {.cables = {3, 6, 1}, .is_lost = false, .silent_ms = 1500}}),
              ElementsAre(5u));
  // One that was heard of no later than the lost one proves nothing.
  EXPECT_THAT(lost_cables({{.cables = {0, 5}, .is_lost = true, .silent_ms = 2100},
                           {.cables = {5, 7}, .is_lost = false, .silent_ms = 2050},
                           {.cables = {0, 7}, .is_lost = false, .silent_ms = 10}}),
              ElementsAre(5u));
  EXPECT_THAT(lost_cables({{.cables = {4}, .is_lost = true, .silent_ms = 2500},
                           {.cables = {9}, .is_lost = true, .silent_ms = 2400}}),
              ElementsAre(4u, 9u));
  // All that it crosses is alive: a connection that stuck for another reason.
  EXPECT_THAT(lost_cables({{.cables = {4}, .is_lost = true, .silent_ms = 2500}, {.cables = {4}, .silent_ms = 0}}),
              IsEmpty());
}

TEST(Rerouting, AllDrawTheSameConclusionsOnceAllHaveReported) {
  const std::vector<RerouteReport> reports{
      {.round = 1,
       .rank = 0,
       .over = 7,
       .also_over = {9},
       .lanes = {{.cables = {3}, .is_lost = true, .silent_ms = 2000}}},
      {.round = 1, .rank = 1, .over = 6, .also_over = {}, .lanes = {}},
      {.round = 1, .rank = 2, .over = 8, .also_over = {}, .lanes = {{.cables = {2}, .silent_ms = 1}}}};
  for (size_t first = 0; first < reports.size(); ++first) {
    Rerouting rerouting(3);
    EXPECT_EQ(rerouting.called_to(0), std::nullopt);
    for (size_t i = 0; i < reports.size(); ++i) {
      EXPECT_FALSE(rerouting.decide(1));
      EXPECT_TRUE(rerouting.missing(1));
      rerouting.heard(reports[(first + i) % reports.size()].encode());
      EXPECT_EQ(rerouting.called_to(0), 1u);
    }
    EXPECT_EQ(rerouting.missing(1), std::nullopt);
    const auto decision = rerouting.decide(1);
    ASSERT_TRUE(decision);
    EXPECT_THAT(decision->lost_cables, ElementsAre(3u));
    EXPECT_TRUE(decision->is_over(8) && decision->is_over(9));
    EXPECT_FALSE(decision->is_over(10));
    EXPECT_EQ(rerouting.called_to(1), std::nullopt);
  }
}

TEST(Rerouting, IgnoresWhatItCannotRead) {
  Rerouting rerouting(2);
  for (const char* text : {"reroute ", "reroute 1", "reroute 1 5 0 0 0", "reroute 1 0 0 99999999999", "reroute x y z",
                           "reroute 1 0 3 0 1 0 5 18446744073709551615 1"}) {
    rerouting.heard(text);
    EXPECT_EQ(rerouting.called_to(0), std::nullopt) << text;
  }
  rerouting.heard("reroute 1 0 0 0 0");
  EXPECT_EQ(rerouting.called_to(0), 1u);
}

}  // namespace
}  // namespace banyan::run
