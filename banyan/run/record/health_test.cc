#include "banyan/run/record/health.h"

#include "banyan/run/record/stall.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(Health, IsReadByTheNameThatItIsWrittenBy) {
  for (size_t i = 0; i < kHealths; ++i) {
    const auto health = static_cast<Health>(i);
    EXPECT_EQ(parse_health(to_string(health)), health) << to_string(health);
  }
}

TEST(Health, NamesTheNearestOfItsNames) {
  EXPECT_THAT(testing::error_of([] { parse_health("ded"); }, ErrorCode::invalid_input),
              AllOf(HasSubstr("unknown health 'ded'"), HasSubstr("did you mean 'dead'"),
                    HasSubstr("unknown, alive, silent, left, dead")));
}

TEST(Health, OfTheGoneDoesNotChangeAnyMore) {
  EXPECT_FALSE(is_gone(Health::silent));
  EXPECT_TRUE(is_gone(Health::left));
  EXPECT_TRUE(is_gone(Health::dead));
}

TEST(FindingKind, IsNamedAsOneWord) {
  EXPECT_EQ(to_string(FindingKind::none), "none");
  EXPECT_EQ(to_string(FindingKind::circle), "circle");
  EXPECT_EQ(to_string(FindingKind::crossing), "crossing");
  EXPECT_EQ(to_string(FindingKind::contradiction), "contradiction");
}

}  // namespace
}  // namespace banyan::run
