#include "banyan/run/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "banyan/base/error.h"
#include "banyan/run/sample_forest.h"
#include "banyan/schedule/verify.h"

namespace banyan {
namespace {

using ::testing::AllOf;
using ::testing::Combine;
using ::testing::HasSubstr;
using ::testing::Values;

constexpr CollectiveKind kKinds[] = {CollectiveKind::allgather, CollectiveKind::reduce_scatter,
                                     CollectiveKind::allreduce, CollectiveKind::broadcast, CollectiveKind::reduce};

void expect_right(const Schedule& schedule, const LocalRunOptions& options, const std::string& what) {
  ASSERT_EQ(verify(schedule).reason, "") << what;
  const LocalRunReport report = run_locally(schedule, options);
  EXPECT_EQ(report.wrong_elements, 0u) << what;
  EXPECT_EQ(report.first_wrong, "") << what;
  EXPECT_EQ(report.elements, options.total.count() / size_of(options.type)) << what;
}

class EveryTransport : public ::testing::TestWithParam<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(LocalRun, EveryTransport, Values(TransportKind::shared_memory, TransportKind::tcp),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(EveryTransport, BringsEveryKindTypeAndReduction) {
  for (const CollectiveKind kind : kKinds) {
    for (const DataType type : {DataType::int32, DataType::float32, DataType::float64}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
        expect_right(
            sample_forest({.kind = kind, .ranks = 3, .root = 1}),
            {.total = Bytes(50'000),
             .type = type,
             .op = op,
             .transport = GetParam(),
             .slice = Bytes(4096),
             .repeats = 1},
            std::string(to_string(kind)) + " " + std::string(to_string(type)) + " " + std::string(to_string(op)));
      }
    }
  }
}

TEST_P(EveryTransport, RunsWithTwoToEightProcesses) {
  for (const uint32_t ranks : {2u, 3u, 5u, 8u}) {
    for (const CollectiveKind kind : kKinds) {
      expect_right(sample_forest({.kind = kind, .ranks = ranks, .trees_per_root = 3, .root = ranks - 1, .seed = ranks}),
                   {.total = Bytes(1'000'003), .transport = GetParam(), .slice = Bytes(16'384), .repeats = 2},
                   std::string(to_string(kind)) + " on " + std::to_string(ranks));
    }
  }
}

}  // namespace
}  // namespace banyan
