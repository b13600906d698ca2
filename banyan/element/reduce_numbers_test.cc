// Numbers: 16-bit floats are rounded once and to even, and the rules for NaN, zeros, means and equals hold, for the
// kernels of each instruction set.

#include <bit>
#include <limits>

#include "banyan/element/reduce.h"
#include "banyan/element/test_kernels.h"
#include "banyan/testing/test.h"

namespace banyan::element {
namespace {

INSTANTIATE_TEST_SUITE_P(Numbers, Kernels, ::testing::Values(Isa::portable, Isa::avx2, Isa::avx512),
                         [](const auto& test) { return std::string(to_string(test.param)); });

std::vector<uint16_t> all_of_16_bits() {
  std::vector<uint16_t> all(65'536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}
std::byte* bytes_of(std::vector<uint16_t>& values) { return reinterpret_cast<std::byte*>(values.data()); }
const std::byte* bytes_of(const std::vector<uint16_t>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

TEST_P(Kernels, WidenAndNarrowEverySixteenBitFloat) {
  const std::vector<uint16_t> all = all_of_16_bits();
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    std::vector<float> floats(all.size());
    widen(type, floats.data(), bytes_of(all), all.size());
    std::vector<uint16_t> back(all.size());
    narrow(type, bytes_of(back), floats.data(), floats.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const double exact = decode(format_of(type), all[i]);
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(floats[i])) << i;
        ASSERT_EQ(back[i], type == DataType::float16 ? 0x7e00 : 0x7fc0);
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(static_cast<float>(exact))) << i;
        ASSERT_EQ(back[i], all[i]);
      }
    }
  }
}

// float32 has more than twice the bits and two, so that rounding twice is rounding the exact sum.
TEST_P(Kernels, AddEverySixteenBitFloatExactly) {
  const std::vector<uint16_t> all = all_of_16_bits();
  std::mt19937_64 random(17);
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    const Format format = format_of(type);
    for (int partner = 0; partner < 24; ++partner) {
      const auto other = static_cast<uint16_t>(random());
      const std::vector<uint16_t> others(all.size(), other);
      std::vector<uint16_t> sums(all.size());
      const std::byte* const sources[] = {bytes_of(all), bytes_of(others)};
      reduce({.type = type}, bytes_of(sums), nullptr, sources, all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(sums[i], encode(format, decode(format, all[i]) + decode(format, other))) << i << " + " << other;
      }
    }
  }
}

TEST_P(Kernels, RoundToNearestEven) {
  std::mt19937_64 random(19);
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    const Format format = format_of(type);
    std::vector<float> floats;
    // Half-way between neighbours, and a little to either side; then anything.
    for (uint32_t bits = 0; bits < 0x7fff; ++bits) {
      const double low = decode(format, bits), high = decode(format, bits + 1);
      const auto middle = static_cast<float>((low + high) / 2);
      for (const float value : {middle, std::nextafter(middle, INFINITY), std::nextafter(middle, 0.0f)}) {
        floats.push_back(value);
        floats.push_back(-value);
      }
    }
    for (int i = 0; i < 300'000; ++i) floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    for (int i = 0; i < 300'000; ++i) floats.push_back(std::ldexp(static_cast<float>(random()), -64 - 24 + i % 42));
    std::vector<uint16_t> rounded(floats.size());
    narrow(type, bytes_of(rounded), floats.data(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(rounded[i], encode(format, static_cast<double>(floats[i]))) << floats[i];
    }
    narrow(type, bytes_of(rounded), floats.data(), floats.size(), 3);
    for (size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(rounded[i], encode(format, static_cast<double>(floats[i] / 3.0f))) << floats[i] << " / 3";
    }
  }
}

TEST_P(Kernels, WidenAndNarrowAnyCount) {
  const std::vector<uint16_t> all = all_of_16_bits();
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    for (size_t count = 0; count < 130; ++count) {
      const uint16_t* const from = all.data() + 15'000;
      std::vector<float> floats(count + 1, -7.0f);
      widen(type, floats.data(), reinterpret_cast<const std::byte*>(from), count);
      ASSERT_EQ(floats[count], -7.0f) << count;
      std::vector<uint16_t> back(count + 1, 7);
      narrow(type, bytes_of(back), floats.data(), count);
      ASSERT_EQ(back[count], 7) << count;
      ASSERT_TRUE(std::equal(from, from + count, back.begin())) << count;
    }
  }
}

// A sum of many is rounded once: the small ones are not lost one by one.
TEST_P(Kernels, RoundASumOfManySixteenBitFloatsOnce) {
  const uint16_t large = static_cast<uint16_t>(encode(kHalf, 2048)), one = static_cast<uint16_t>(encode(kHalf, 1));
  std::vector<std::vector<uint16_t>> values(9, std::vector<uint16_t>(50, one));
  values[0].assign(50, large);
  std::vector<const std::byte*> sources;
  for (const auto& value : values) sources.push_back(bytes_of(value));
  std::vector<uint16_t> sum(50);
  reduce({.type = DataType::float16}, bytes_of(sum), nullptr, sources, 50);
  EXPECT_THAT(sum, ::testing::Each(encode(kHalf, 2056)));
}

float reduced(ReduceOp op, std::vector<float> values, uint32_t divisor = 1) {
  std::vector<const std::byte*> sources;
  for (const float& value : values) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  float result = 0;
  reduce({.op = op, .divisor = divisor}, reinterpret_cast<std::byte*>(&result), nullptr, sources, 1);
  return result;
}

TEST_P(Kernels, KeepTheEarlierOfEquals) {
  EXPECT_FALSE(std::signbit(reduced(ReduceOp::min, {0.0f, -0.0f})));
  EXPECT_TRUE(std::signbit(reduced(ReduceOp::min, {-0.0f, 0.0f})));
  EXPECT_FALSE(std::signbit(reduced(ReduceOp::max, {0.0f, -0.0f})));
  EXPECT_TRUE(std::signbit(reduced(ReduceOp::max, {-0.0f, 0.0f})));
}

TEST_P(Kernels, LetNaNGiveWayInMinAndMaxOnly) {
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    EXPECT_EQ(reduced(op, {NAN, 1}), 1);
    EXPECT_EQ(reduced(op, {1, NAN}), 1);
    EXPECT_EQ(reduced(op, {NAN, 1, NAN, NAN, NAN}), 1);
    EXPECT_TRUE(std::isnan(reduced(op, {NAN, NAN})));
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::avg, ReduceOp::premul_sum}) {
    EXPECT_TRUE(std::isnan(reduced(op, {NAN, 1}, 2)));
    EXPECT_TRUE(std::isnan(reduced(op, {1, NAN, 2})));
  }
  EXPECT_TRUE(std::isnan(reduced(ReduceOp::sum, {INFINITY, -INFINITY})));
}

TEST_P(Kernels, AddZerosAsIeeeDoes) {
  EXPECT_TRUE(std::signbit(reduced(ReduceOp::sum, {-0.0f, -0.0f})));
  EXPECT_FALSE(std::signbit(reduced(ReduceOp::sum, {-0.0f, 0.0f})));
  EXPECT_TRUE(std::signbit(reduced(ReduceOp::sum, {-0.0f})));
  EXPECT_TRUE(std::signbit(reduced(ReduceOp::avg, {-0.0f, -0.0f}, 2)));
}

TEST_P(Kernels, TruncateTheMeanOfIntegersTowardsZero) {
  const std::vector<int32_t> left = {-7, 7, -1, 5}, right = {0, 0, 0, -5};
  const std::byte* const sources[] = {reinterpret_cast<const std::byte*>(left.data()),
                                      reinterpret_cast<const std::byte*>(right.data())};
  std::vector<int32_t> mean(4);
  reduce({.type = DataType::int32, .op = ReduceOp::avg, .divisor = 2}, reinterpret_cast<std::byte*>(mean.data()),
         nullptr, sources, 4);
  EXPECT_THAT(mean, ::testing::ElementsAre(-3, 3, 0, 0));
}

TEST_P(Kernels, DivideIntegersExactlyAtTheEdges) {
  constexpr uint32_t kMostValue = std::numeric_limits<uint32_t>::max();
  for (const uint32_t divisor : {2u, 3u, 7u, 65'537u, kMostValue - 1, kMostValue}) {
    for (const uint32_t value : {0u, 1u, divisor - 1, divisor, kMostValue - 1, kMostValue, 2'147'483'648u}) {
      const std::byte* const source = reinterpret_cast<const std::byte*>(&value);
      uint32_t mean = 0;
      reduce({.type = DataType::uint32, .op = ReduceOp::avg, .divisor = divisor}, reinterpret_cast<std::byte*>(&mean),
             nullptr, {&source, 1}, 1);
      EXPECT_EQ(mean, value / divisor) << value << " / " << divisor;
    }
  }
}
}  // namespace
}  // namespace banyan::element
