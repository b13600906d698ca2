#include "banyan/base/rank_list.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(RankList, JoinsNeighboursAndEndsInTime) {
  EXPECT_EQ(list_ranks({}), "no rank");
  EXPECT_EQ(list_ranks({3}), "rank 3");
  EXPECT_EQ(list_ranks({0, 1, 2}), "ranks 0, 1, 2");
  EXPECT_EQ(list_ranks({0, 1, 2, 3, 7}), "ranks 0-3, 7");
  EXPECT_EQ(list_ranks({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

TEST(RankList, AgreesWithItsVerb) {
  EXPECT_STREQ(agree({3}, "wait", "waits"), "waits");
  EXPECT_STREQ(agree({3, 4}, "wait", "waits"), "wait");
}

}  // namespace
}  // namespace banyan
