#include "banyan/fabric/hostlist.h"

#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

std::string hostlist_error(const std::string& text) {
  const std::string error = testing::error_of([&] { expand_hostlist(text); });
  EXPECT_EQ(testing::error_of([&] { measure_hostlist(text); }), error);
  return error;
}

TEST(Hostlist, ExpandsRangesAndLists) {
  EXPECT_THAT(expand_hostlist("tux[0-2,12,18-19]"), ElementsAre("tux0", "tux1", "tux2", "tux12", "tux18", "tux19"));
  EXPECT_THAT(expand_hostlist("a,b3,c[1]"), ElementsAre("a", "b3", "c1"));
  EXPECT_THAT(expand_hostlist("r[1-2]n[1-2]x"), ElementsAre("r1n1x", "r1n2x", "r2n1x", "r2n2x"));
}

TEST(Hostlist, KeepsTheZerosInFront) {
  EXPECT_THAT(expand_hostlist("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(expand_hostlist("n[007,1000]"), ElementsAre("n007", "n1000"));
}

TEST(Hostlist, IsMeasuredBeforeItIsExpanded) {
  for (const char* text : {"tux[0-2,12,18-19]", "a,b3,c[1]", "r[1-2]n[1-2]x", "n[08-11]", "n[007,1000]", "x[9-10]y"}) {
    const std::vector<std::string> names = expand_hostlist(text);
    size_t most_bytes = 0;
    for (const std::string& name : names) most_bytes = std::max(most_bytes, name.size());
    EXPECT_EQ(measure_hostlist(text).names, names.size()) << text;
    EXPECT_EQ(measure_hostlist(text).most_bytes, most_bytes) << text;
  }
  EXPECT_EQ(measure_hostlist("a[1-100000000],b[1-5][1-1000000000],c").names, 5'100'000'001u);
  EXPECT_EQ(measure_hostlist("a[0-999999999999999999][0-999999999999999999],b").names, UINT64_MAX);
  EXPECT_EQ(measure_hostlist("a[1-3][000000000000000001]").most_bytes, 20u);
}

TEST(Hostlist, SaysWhatIsWrong) {
  EXPECT_THAT(hostlist_error("a[1-2"), HasSubstr("has a '[' without a ']'"));
  EXPECT_THAT(hostlist_error("a1-2]"), HasSubstr("brackets that do not fit"));
  EXPECT_THAT(hostlist_error("a[[1]]"), HasSubstr("brackets that do not fit"));
  EXPECT_THAT(hostlist_error("a[3-1]"), HasSubstr("runs backwards: 3-1"));
  EXPECT_THAT(hostlist_error("a[1-x]"), HasSubstr("has 'x' where a number should be"));
  EXPECT_THAT(hostlist_error("a[]"), HasSubstr("where a number should be"));
  EXPECT_THAT(hostlist_error("a,,b"), HasSubstr("empty name"));
  EXPECT_THAT(hostlist_error(""), HasSubstr("empty name"));
}

}  // namespace
}  // namespace banyan::fabric
