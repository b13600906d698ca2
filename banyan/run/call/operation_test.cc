#include "banyan/run/call/operation.h"

#include "banyan/run/call/call.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

OperationRecord all_reduce(uint64_t sequence, uint64_t count) {
  OperationRecord record;
  record.sequence = sequence;
  record.kind = OperationKind::all_reduce;
  record.type = element::DataType::float32;
  record.count = count;
  return record;
}

TEST(Operation, NamesRoundTrip) {
  for (size_t i = 0; i < kOperationKinds; ++i) {
    const auto kind = static_cast<OperationKind>(i);
    EXPECT_EQ(parse_operation_kind(to_string(kind)), kind);
  }
  for (size_t i = 0; i < kOperationStates; ++i) {
    const auto state = static_cast<OperationState>(i);
    EXPECT_EQ(parse_operation_state(to_string(state)), state);
  }
}

TEST(Operation, AnUnknownNameListsTheKnownOnes) {
  try {
    parse_operation_kind("allreduc");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("unknown operation 'allreduc' (did you mean 'allreduce'?); known are "
                                     "allreduce, reduce, "));
  }
}

TEST(Operation, IsDescribedAsOneWouldSayIt) {
  OperationRecord record = all_reduce(17, 1024);
  EXPECT_EQ(describe(record), "allreduce #17 of 1024 float32 sum");
  record.kind = OperationKind::broadcast;
  record.other = 2;
  EXPECT_EQ(describe(record), "broadcast #17 of 1024 float32 from rank 2");
  record.kind = OperationKind::reduce;
  EXPECT_EQ(describe(record), "reduce #17 of 1024 float32 sum to rank 2");
  record.kind = OperationKind::send;
  EXPECT_EQ(describe(record), "send #17 of 1024 float32 to rank 2");
  record.kind = OperationKind::barrier;
  EXPECT_EQ(describe(record), "barrier #17");
}

// Every field that two ranks must agree on changes the signature, and only those.
TEST(Operation, SignatureTellsWhatMatters) {
  const OperationRecord mine = all_reduce(17, 1024);
  std::set<uint64_t> seen{signature(mine)};
  const auto differs = [&](auto change) {
    OperationRecord other = mine;
    change(other);
    return seen.insert(signature(other)).second;
  };
  EXPECT_TRUE(differs([](auto& record) { record.count = 1000; }));
  EXPECT_TRUE(differs([](auto& record) { record.type = element::DataType::float64; }));
  for (size_t op = 1; op < element::kReduceOps; ++op) {
    EXPECT_TRUE(differs([op](auto& record) { record.op = static_cast<element::ReduceOp>(op); })) << op;
  }
  EXPECT_TRUE(differs([](auto& record) { record.kind = OperationKind::all_gather; }));
  EXPECT_TRUE(differs([](auto& record) { record.counts_hash = 5; }));
  EXPECT_FALSE(differs([](auto& record) { record.begin = record.end = 99; }));
  EXPECT_FALSE(differs([](auto& record) { record.step = record.waits_for = 3; }));
  EXPECT_FALSE(differs([](auto& record) { record.state = OperationState::done; }));
}

TEST(Operation, SignatureIgnoresWhatAKindDoesNotHave) {
  OperationRecord mine = all_reduce(1, 8), theirs = mine;
  mine.kind = theirs.kind = OperationKind::barrier;
  theirs.count = 9;
  theirs.op = element::ReduceOp::max;
  EXPECT_EQ(signature(mine), signature(theirs));
  mine.kind = theirs.kind = OperationKind::all_gather_v;  // each contributes its own count
  EXPECT_EQ(signature(mine), signature(theirs));
  mine.kind = theirs.kind = OperationKind::broadcast;
  EXPECT_NE(signature(mine), signature(theirs));
}

TEST(Operation, BothEndsOfAMessageAgree) {
  OperationRecord mine = all_reduce(1, 8), theirs = all_reduce(5, 8);
  mine.kind = OperationKind::send;
  mine.other = 1;
  theirs.kind = OperationKind::recv;
  theirs.other = 0;
  EXPECT_EQ(signature(mine), signature(theirs));
  EXPECT_EQ(difference(mine, theirs), "");
  theirs.count = 7;
  EXPECT_NE(signature(mine), signature(theirs));
  EXPECT_EQ(difference(mine, theirs), "the counts differ");
}

TEST(Operation, HashOfCountsKnowsTheirOrder) {
  const auto hash = [](const std::vector<size_t>& counts) {
    return numbers_of(Call{.kind = OperationKind::all_gather_v, .recv_counts = counts})[2];
  };
  EXPECT_NE(hash({1, 2}), hash({2, 1}));
  EXPECT_NE(hash({1, 2}), hash({1, 2, 0}));
  EXPECT_EQ(hash({1, 2}), hash({1, 2}));
}

TEST(Operation, AMismatchNamesBothCallsAndWhatDiffers) {
  EXPECT_EQ(
      mismatch_message(0, all_reduce(17, 1000), 3, all_reduce(17, 1024)),
      "rank 3 called allreduce #17 of 1024 float32 sum where rank 0 called allreduce #17 of 1000 float32 sum: the "
      "counts differ");
}

struct Difference {
  const char* words;
  void (*change)(OperationRecord&);
};

class Differences : public ::testing::TestWithParam<Difference> {};
INSTANTIATE_TEST_SUITE_P(
    Of, Differences,
    ::testing::Values(
        Difference{"the types differ", [](OperationRecord& record) { record.type = element::DataType::int8; }},
        Difference{"the reductions differ", [](OperationRecord& record) { record.op = element::ReduceOp::min; }},
        Difference{"the roots differ", [](OperationRecord& record) { record.other = 2; }},
        Difference{"the numbers of the calls differ", [](OperationRecord& record) { record.sequence = 18; }},
        Difference{"the types and the counts differ",
                   [](OperationRecord& record) {
                     record.type = element::DataType::int8;
                     record.count = 1;
                   }},
        Difference{"the operations differ (do all ranks make their calls in the same order?)",
                   [](OperationRecord& record) { record.kind = OperationKind::barrier; }},
        Difference{"the counts of the ranks differ", [](OperationRecord& record) { record.counts_hash = 9; }}));

TEST_P(Differences, AreNamed) {
  OperationRecord mine = all_reduce(17, 1024);
  mine.kind = OperationKind::reduce;
  mine.other = 0;
  OperationRecord theirs = mine;
  GetParam().change(theirs);
  EXPECT_EQ(difference(mine, theirs), GetParam().words);
}

}  // namespace
}  // namespace banyan::run
