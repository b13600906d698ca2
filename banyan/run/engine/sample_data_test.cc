#include "banyan/run/engine/sample_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "banyan/testing/sample_forest.h"

namespace banyan {
namespace {

constexpr uint64_t kElements = 200'000;  // several periods

template <typename T>
std::vector<T> samples(const SampleData& data, uint32_t rank) {
  std::vector<T> values(kElements);
  data.fill(std::as_writable_bytes(std::span(values)), rank, 0, kElements);
  return values;
}

Collective collective(CollectiveKind kind, uint32_t ranks) {
  return sample_forest({.kind = kind, .ranks = ranks}).collective();
}

// The naive answer: element by element, rank by rank.
template <typename T>
uint64_t wrong_in_naive_answer(const Reduction& reduction, uint32_t ranks) {
  const SampleData data(collective(CollectiveKind::allreduce, ranks), reduction);
  std::vector<T> answer = samples<T>(data, 0);
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const std::vector<T> next = samples<T>(data, rank);
    for (size_t i = 0; i < kElements; ++i) {
      answer[i] = reduction.op == ReduceOp::sum   ? answer[i] + next[i]
                  : reduction.op == ReduceOp::min ? std::min(answer[i], next[i])
                                                  : std::max(answer[i], next[i]);
    }
  }
  return data.compare(std::as_bytes(std::span(answer)), 0, 0, kElements).wrong;
}

TEST(SampleData, ExpectsWhatAddingOneByOneGives) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
    EXPECT_EQ(wrong_in_naive_answer<int32_t>({DataType::int32, op}, 5), 0u);
    EXPECT_EQ(wrong_in_naive_answer<float>({DataType::float32, op}, 8), 0u);
    EXPECT_EQ(wrong_in_naive_answer<double>({DataType::float64, op}, 3), 0u);
  }
}

TEST(SampleData, DependsOnRankAndPosition) {
  const SampleData data(collective(CollectiveKind::allgather, 2), {.type = DataType::int32});
  const std::vector<int32_t> first = samples<int32_t>(data, 0), second = samples<int32_t>(data, 1);
  const auto equal_at_distance = [&](const std::vector<int32_t>& other, size_t distance) {
    size_t equal = 0;
    for (size_t i = distance; i < kElements; ++i) equal += first[i] == other[i - distance] ? 1 : 0;
    return static_cast<double>(equal) / static_cast<double>(kElements);
  };
  EXPECT_LT(equal_at_distance(second, 0), 0.02) << "ranks look alike";
  for (const size_t distance : {1u, 2u, 1024u, 32'768u, 65'521u, 65'536u, 131'042u}) {
    EXPECT_LT(equal_at_distance(first, distance), 0.02) << distance << " elements further on";
  }
}

TEST(SampleData, CountsWhatIsWrongAndNamesTheFirst) {
  const SampleData data(collective(CollectiveKind::broadcast, 2), {.type = DataType::float64});
  std::vector<double> values = samples<double>(data, 0);
  const double right = values[1000];
  values[1000] += 1;
  values[5000] += 1;
  const auto part = std::as_bytes(std::span(values).subspan(900));
  const SampleData::Comparison comparison = data.compare(part, 0, 900, kElements);
  EXPECT_EQ(comparison.wrong, 2u);
  EXPECT_EQ(comparison.first, 1000u);
  EXPECT_EQ(comparison.got, right + 1);
  EXPECT_EQ(comparison.expected, right);
}

TEST(SampleData, NothingSpoiltIsRight) {
  for (const DataType type : {DataType::int32, DataType::float32, DataType::float64}) {
    const SampleData data(collective(CollectiveKind::allreduce, 3), {.type = type});
    std::vector<std::byte> bytes(kElements * size_of(type));
    data.spoil(bytes);
    EXPECT_EQ(data.compare(bytes, 0, 0, kElements).wrong, kElements);
  }
}

}  // namespace
}  // namespace banyan
