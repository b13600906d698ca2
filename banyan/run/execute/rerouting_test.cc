#include "banyan/run/execute/rerouting.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Of a lane between two ranks.
LaneReport lane(uint32_t rank, uint32_t peer, std::vector<uint32_t> cables, uint64_t silent_ms, bool is_lost = false) {
  return {.rank = rank, .peer = peer, .cables = std::move(cables), .is_lost = is_lost, .silent_ms = silent_ms};
}
LaneReport lost(uint32_t rank, uint32_t peer, std::vector<uint32_t> cables, uint64_t silent_ms) {
  return lane(rank, peer, std::move(cables), silent_ms, true);
}

TEST(LostCables, AreThoseThatNoLaneWasHeardOverSince) {
  EXPECT_THAT(lost_cables({lost(0, 1, {0, 5, 1}, 2100), lane(0, 2, {0, 6, 2}, 3), lane(3, 1, {3, 6, 1}, 1500)}),
              ElementsAre(5u));
  // One that was heard of no later than the lost one proves nothing.
  EXPECT_THAT(lost_cables({lost(0, 1, {0, 5}, 2100), lane(1, 2, {5, 7}, 2050), lane(0, 2, {0, 7}, 10)}),
              ElementsAre(5u));
  EXPECT_THAT(lost_cables({lost(0, 1, {4}, 2500), lost(2, 3, {9}, 2400)}), ElementsAre(4u, 9u));
  // All that it crosses is alive: a connection that stuck for another reason.
  EXPECT_THAT(lost_cables({lost(0, 1, {4}, 2500), lane(0, 2, {4}, 0)}), IsEmpty());
}

// What rank 0 sends over cable 5 is lost, and what comes to it is not: it hears from ranks 1 and 2 all the time, and
// they do not hear from it.
TEST(LostCables, AreFoundWhereOnlyWhatGoesOneWayIsLost) {
  EXPECT_THAT(lost_cables({lost(0, 1, {0, 5, 1}, 2100), lane(1, 0, {1, 5, 0}, 2300), lane(0, 2, {0, 5, 2}, 3),
                           lane(2, 0, {2, 5, 0}, 2200), lane(0, 3, {0, 6, 3}, 9), lane(3, 0, {3, 6, 0}, 5),
                           lane(3, 1, {3, 6, 1}, 9), lane(1, 3, {1, 6, 3}, 9)}),
              ElementsAre(5u));
}

}  // namespace
}  // namespace banyan::run
