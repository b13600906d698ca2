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

}  // namespace
}  // namespace banyan::run
