// The oracle of banyan_c_lab_runs, on networks small enough to see.

#include "banyan/testing/test.h"
#include "bindings/c/test_lab_oracle.h"

namespace banyan::c {
namespace {

using Spans = std::vector<LabSpan>;

LabSpan span(int begin, int end) { return {LabTime(begin), LabTime(end)}; }
// At once.
LabOutage out(size_t cable, int from, int to) {
  return {.cable = cable,
          .cut_begun = LabTime(from),
          .cut = LabTime(from),
          .mend_begun = LabTime(to),
          .mended = LabTime(to)};
}

const LabGraph kRing{.nodes = 4, .ranks = 4, .cables = {{0, 1}, {1, 2}, {2, 3}, {3, 0}}};
const LabGraph kStar{.nodes = 4, .ranks = 3, .cables = {{0, 3}, {1, 3}, {2, 3}}};

TEST(LabOracle, ARingIsSplitWhileTwoOfItsCablesAreCut) {
  const LabOracle oracle(kRing, {out(0, 10, 50), out(2, 30, 70)});
  EXPECT_EQ(oracle.possible_splits(), Spans{span(30, 50)});
  EXPECT_EQ(oracle.sure_splits(), Spans{span(30, 50)});
  EXPECT_TRUE(oracle.were_parted(0, 1, span(0, 100)));
  EXPECT_FALSE(oracle.were_parted(1, 2, span(0, 100)));
  EXPECT_FALSE(oracle.were_parted(0, 1, span(50, 100)));
}

TEST(LabOracle, OneCableOfARingPartsNobody) {
  const LabOracle oracle(kRing, {out(0, 10, 50), out(1, 50, 90)});
  EXPECT_EQ(oracle.possible_splits(), Spans());
  EXPECT_EQ(oracle.stalls(LabTime(5)), (Spans{span(10, 15), span(50, 55)}));
}

TEST(LabOracle, EveryCableOfAStarIsNeeded) {
  const LabOracle oracle(kStar, {out(1, 10, 20), out(2, 20, 30), out(0, 60, 65)});
  EXPECT_EQ(oracle.possible_splits(), (Spans{span(10, 30), span(60, 65)}));
  EXPECT_EQ(longest(oracle.possible_splits()), LabTime(20));
  EXPECT_EQ(oracle.stalls(LabTime(5)), (Spans{span(10, 35), span(60, 70)}));
}

TEST(LabOracle, WhatCuttingAndMendingTookIsNotSure) {
  const LabOracle oracle(
      kStar,
      {{.cable = 0, .cut_begun = LabTime(10), .cut = LabTime(14), .mend_begun = LabTime(40), .mended = LabTime(47)}});
  EXPECT_EQ(oracle.possible_splits(), Spans{span(10, 47)});
  EXPECT_EQ(oracle.sure_splits(), Spans{span(14, 40)});
}

TEST(LabOracle, WhatIsNeverMendedLastsForEver) {
  const LabOracle oracle(kStar, {{.cable = 0, .cut_begun = LabTime(10), .cut = LabTime(10)}});
  EXPECT_EQ(oracle.possible_splits(), (Spans{{LabTime(10), LabOutage::kNever}}));
  EXPECT_TRUE(oracle.were_parted(0, 1, span(500, 600)));
}

TEST(LabOracle, WhatIsMendedMayLetSomeGoAStepFurther) {
  const LabOracle oracle(kStar, {out(0, 10, 50), out(1, 40, 90)});
  EXPECT_EQ(oracle.sure_splits(), Spans{span(10, 90)});
  EXPECT_EQ(oracle.standstills(LabTime(5)), (Spans{span(10, 50), span(55, 90)}));
}

TEST(LabOracle, WhatComesAfterTheEndDoesNotCount) {
  const LabOracle oracle(kStar, {out(0, 10, 50), out(1, 60, 90)}, LabTime(20));
  EXPECT_EQ(oracle.possible_splits(), Spans{span(10, 20)});
  EXPECT_EQ(oracle.stalls(LabTime(40)), Spans{span(10, 20)});
}

}  // namespace
}  // namespace banyan::c
