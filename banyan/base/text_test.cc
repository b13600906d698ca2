#include "banyan/base/text.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(Text, IsMadeLowerInAsciiOnly) { EXPECT_EQ(lower("A100-SXM4 \xc3\x84"), "a100-sxm4 \xc3\x84"); }

TEST(Text, IsTrimmedAtItsEndsOnly) {
  EXPECT_EQ(trim(" \ta b\r"), "a b");
  EXPECT_EQ(trim(" \t\r"), "");
}

TEST(Text, IsSplitIntoOnePartMoreThanSeparators) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Text, IsSplitIntoWordsThatAreNotEmpty) {
  EXPECT_THAT(split_words("\n 1\t22\r\n\n 3 "), ElementsAre("1", "22", "3"));
  EXPECT_THAT(split_words(" \r\n"), ElementsAre());
}

TEST(Text, HasCellsWithoutTheirBlanks) { EXPECT_THAT(split_cells(" a ,b\t,\r"), ElementsAre("a", "b", "")); }

TEST(Text, CountsAsPeopleDo) {
  EXPECT_EQ(plural(1, "rank"), "1 rank");
  EXPECT_EQ(plural(1'234'567, "link"), "1,234,567 links");
  EXPECT_EQ(plural(0, "switch"), "0 switches");
  EXPECT_EQ(plural(100, "box"), "100 boxes");
  EXPECT_EQ(plural(2, "process"), "2 processes");
}

}  // namespace
}  // namespace banyan
