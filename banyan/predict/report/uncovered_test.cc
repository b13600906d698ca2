#include "banyan/predict/report/uncovered.h"

#include "banyan/testing/test.h"

namespace banyan::predict::report {
namespace {

using ::testing::DoubleEq;
using ::testing::FieldsAre;

using Kind = PredictedSpan::Kind;

PredictedSpan span(uint32_t rank, Kind kind, uint32_t name, int64_t begin, int64_t end) {
  return {.rank = rank, .kind = kind, .name = name, .begin = Picoseconds(begin), .end = Picoseconds(end)};
}

TEST(Uncovered, CountsOnlyWhatNothingComputesBeside) {
  Prediction prediction;
  prediction.time = Picoseconds(100);
  prediction.ranks.resize(1);
  prediction.names = {"matmul", "all-reduce"};
  prediction.spans = {span(0, Kind::compute, 0, 0, 60), span(0, Kind::collective, 1, 40, 90)};
  EXPECT_THAT(uncovered_operations(prediction, 8), ElementsAre(FieldsAre("all-reduce", DoubleEq(0.3))));
}

TEST(Uncovered, SharesTimeAmongOperationsThatAreUnderWayTogether) {
  Prediction prediction;
  prediction.time = Picoseconds(100);
  prediction.ranks.resize(2);
  prediction.names = {"all-reduce", "send"};
  // Rank 0: 20 alone, then 20 of both, then 10 of the send alone. Rank 1: nothing but the send.
  prediction.spans = {span(0, Kind::collective, 0, 10, 50), span(0, Kind::send, 1, 30, 60),
                      span(1, Kind::send, 1, 0, 100)};
  EXPECT_THAT(uncovered_operations(prediction, 8),
              ElementsAre(FieldsAre("send", DoubleEq(0.6)), FieldsAre("all-reduce", DoubleEq(0.15))));
}

TEST(Uncovered, AddsUpTheRestWhenThereAreMoreThanAskedFor) {
  Prediction prediction;
  prediction.time = Picoseconds(100);
  prediction.ranks.resize(1);
  prediction.names = {"a", "b", "c"};
  prediction.spans = {span(0, Kind::wait, 0, 0, 50), span(0, Kind::wait, 1, 50, 80), span(0, Kind::wait, 2, 80, 100)};
  EXPECT_THAT(uncovered_operations(prediction, 2),
              ElementsAre(FieldsAre("a", DoubleEq(0.5)), FieldsAre("other", DoubleEq(0.5))));
}

}  // namespace
}  // namespace banyan::predict::report
