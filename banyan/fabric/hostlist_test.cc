#include "banyan/fabric/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/testing/thrown.h"

namespace banyan::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string hostlist_error(const std::string& text) {
  return testing::error_of([&] { expand_hostlist(text, 1000); });
}

TEST(Hostlist, ExpandsRangesAndLists) {
  EXPECT_THAT(expand_hostlist("tux[0-2,12,18-19]", 100),
              ElementsAre("tux0", "tux1", "tux2", "tux12", "tux18", "tux19"));
  EXPECT_THAT(expand_hostlist("a,b3,c[1]", 100), ElementsAre("a", "b3", "c1"));
  EXPECT_THAT(expand_hostlist("r[1-2]n[1-2]x", 100), ElementsAre("r1n1x", "r1n2x", "r2n1x", "r2n2x"));
}

TEST(Hostlist, KeepsTheZerosInFront) {
  EXPECT_THAT(expand_hostlist("n[08-11]", 100), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(expand_hostlist("n[007,1000]", 100), ElementsAre("n007", "n1000"));
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
  EXPECT_THAT(hostlist_error("a[0-1000]"), HasSubstr("more than 1000 names"));
  EXPECT_THAT(hostlist_error("a[0-99][0-99]"), HasSubstr("more than 1000 names"));
  EXPECT_THAT(hostlist_error("a[0-99999999999999999]"), HasSubstr("more than 1000 names"));
  EXPECT_THAT(hostlist_error("a[0-999],b"), HasSubstr("more than 1000 names"));
}

}  // namespace
}  // namespace banyan::fabric
