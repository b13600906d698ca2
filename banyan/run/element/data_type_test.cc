#include "banyan/run/element/data_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "banyan/base/error.h"

namespace banyan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> reduced(const Reduction& reduction, std::vector<T> left, const std::vector<T>& right, size_t shift = 0) {
  // `shift` bytes off any alignment, and once into another place, once in place.
  const size_t size = left.size() * sizeof(T);
  std::vector<std::byte> a(size + shift), b(size + shift), result(size + shift);
  std::memcpy(a.data() + shift, left.data(), size);
  std::memcpy(b.data() + shift, right.data(), size);
  reduction(result.data() + shift, a.data() + shift, b.data() + shift, left.size());
  reduction(a.data() + shift, a.data() + shift, b.data() + shift, left.size());
  EXPECT_EQ(std::memcmp(a.data(), result.data(), size + shift), 0) << "in place differs";
  std::memcpy(left.data(), result.data() + shift, size);
  return left;
}

TEST(Reduction, AddsAndCompares) {
  const std::vector<float> left{1, -2, 0.5f}, right{2, -3, 0.5f};
  EXPECT_THAT(reduced({DataType::float32, ReduceOp::sum}, left, right), ElementsAre(3.f, -5.f, 1.f));
  EXPECT_THAT(reduced({DataType::float32, ReduceOp::min}, left, right), ElementsAre(1.f, -3.f, 0.5f));
  EXPECT_THAT(reduced({DataType::float32, ReduceOp::max}, left, right), ElementsAre(2.f, -2.f, 0.5f));
  EXPECT_THAT(reduced<double>({DataType::float64, ReduceOp::sum}, {1e100}, {1}), ElementsAre(1e100));
  EXPECT_THAT(reduced<int32_t>({DataType::int32, ReduceOp::min}, {5, -5}, {-6, 6}), ElementsAre(-6, -5));
}

TEST(Reduction, WrapsWholeNumbersRound) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max(), kLeast = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(reduced<int32_t>({DataType::int32, ReduceOp::sum}, {kMost, kLeast}, {1, -1}), ElementsAre(kLeast, kMost));
}

TEST(Reduction, KeepsTheLeftOfEqualsAndOfNoNumbers) {
  const std::vector<double> zero = reduced<double>({DataType::float64, ReduceOp::min}, {0.0, 7}, {-0.0, NAN});
  EXPECT_FALSE(std::signbit(zero[0]));
  EXPECT_EQ(zero[1], 7);
}

TEST(Reduction, WorksOnAnyCountAtAnyAlignment) {
  for (size_t count = 1; count < 70; ++count) {
    for (size_t shift = 0; shift < 8; ++shift) {
      std::vector<float> left, right, sums;
      for (size_t i = 0; i < count; ++i) {
        left.push_back(static_cast<float>(i));
        right.push_back(static_cast<float>(100 * i));
        sums.push_back(static_cast<float>(101 * i));
      }
      ASSERT_EQ(reduced({DataType::float32, ReduceOp::sum}, left, right, shift), sums) << count << " at " << shift;
    }
  }
}

TEST(DataType, HasNamesThatParseBack) {
  for (const DataType type : {DataType::int32, DataType::float32, DataType::float64}) {
    EXPECT_EQ(parse_data_type(to_string(type)), type);
    EXPECT_EQ(size_of(type), type == DataType::float64 ? 8u : 4u);
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) EXPECT_EQ(parse_reduce_op(to_string(op)), op);
}

TEST(DataType, NamesWhatIsKnownWhenAskedForAnother) {
  const auto complaint = [](auto parse) -> std::string {
    try {
      parse();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(complaint([] { parse_data_type("flaot32"); }),
            "unknown data type 'flaot32' (did you mean 'float32'?); known are int32, float32, float64");
  EXPECT_THAT(complaint([] { parse_reduce_op(""); }), HasSubstr("unknown reduction ''; known are sum, min, max"));
}

}  // namespace
}  // namespace banyan
