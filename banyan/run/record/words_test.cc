#include "banyan/run/record/words.h"

#include <gtest/gtest.h>

namespace banyan::run {
namespace {

TEST(Words, Durations) {
  EXPECT_EQ(duration_words(0), "0 ns");
  EXPECT_EQ(duration_words(999), "999 ns");
  EXPECT_EQ(duration_words(1'234), "1.2 us");
  EXPECT_EQ(duration_words(999'960), "1.0 ms");
  EXPECT_EQ(duration_words(4'200'000'000), "4.2 s");
  EXPECT_EQ(duration_words(303'000'000'000), "5 min 3 s");
  EXPECT_EQ(duration_words(7'260'000'000'000), "2 h 1 min");
  EXPECT_EQ(duration_words(-1'500'000), "-1.5 ms");
  EXPECT_NE(duration_words(INT64_MIN), "");
}

TEST(Words, Numbers) {
  EXPECT_EQ(thousands(0), "0");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(thousands(1000), "1,000");
  EXPECT_EQ(thousands(1234567), "1,234,567");
  EXPECT_EQ(percent_words(0.934), "93 %");
}

}  // namespace
}  // namespace banyan::run
