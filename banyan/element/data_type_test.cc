#include "banyan/element/data_type.h"

#include <limits>

#include "banyan/testing/test.h"

namespace banyan::element {
namespace {

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

TEST(Reduction, AddsComparesAndCombinesBits) {
  const std::vector<float> left{1, -2, 0.5f}, right{2, -3, 0.5f};
  EXPECT_THAT(reduced({DataType::float32, ReduceOp::sum}, left, right), ElementsAre(3.f, -5.f, 1.f));
  EXPECT_THAT(reduced({DataType::float32, ReduceOp::min}, left, right), ElementsAre(1.f, -3.f, 0.5f));
  EXPECT_THAT(reduced({DataType::float32, ReduceOp::max}, left, right), ElementsAre(2.f, -2.f, 0.5f));
  EXPECT_THAT(reduced<double>({DataType::float64, ReduceOp::sum}, {1e100}, {1}), ElementsAre(1e100));
  EXPECT_THAT(reduced<int32_t>({DataType::int32, ReduceOp::min}, {5, -5}, {-6, 6}), ElementsAre(-6, -5));
  EXPECT_THAT(reduced<int16_t>({DataType::int16, ReduceOp::band}, {-1, 0x0ff0}, {0x1234, 0x3c3c}),
              ElementsAre(0x1234, 0x0c30));
  EXPECT_THAT(reduced<int8_t>({DataType::int8, ReduceOp::bor}, {-128, 3}, {1, 4}), ElementsAre(-127, 7));
  EXPECT_THAT(reduced<uint64_t>({DataType::uint64, ReduceOp::bxor}, {~uint64_t{0}}, {1}), ElementsAre(~uint64_t{1}));
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
  for (size_t i = 0; i < kDataTypes; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(parse_data_type(to_string(type)), type);
    // The number at the end of the name is that of the bits.
    const std::string name(to_string(type));
    EXPECT_EQ(size_of(type) * 8, std::stoul(name.substr(name.find_first_of("123456789")))) << name;
    EXPECT_EQ(is_floating(type), name.find("float") != std::string::npos) << name;
  }
  for (size_t i = 0; i < kReduceOps; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    EXPECT_EQ(parse_reduce_op(to_string(op)), op);
  }
}

TEST(DataType, IsKnownByTheNamesOfOthersToo) {
  EXPECT_EQ(parse_data_type("half"), DataType::float16);
  EXPECT_EQ(parse_data_type("fp16"), DataType::float16);
  EXPECT_EQ(parse_data_type("bf16"), DataType::bfloat16);
  EXPECT_EQ(parse_data_type("float"), DataType::float32);
  EXPECT_EQ(parse_data_type("double"), DataType::float64);
  EXPECT_EQ(parse_reduce_op("mulsum"), ReduceOp::premul_sum);
}

TEST(DataType, IsReducedBitByBitWhereItIsAnInteger) {
  for (size_t t = 0; t < kDataTypes; ++t) {
    for (size_t o = 0; o < kReduceOps; ++o) {
      const auto type = static_cast<DataType>(t);
      const auto op = static_cast<ReduceOp>(o);
      const bool bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
      EXPECT_EQ(is_bitwise(op), bits) << to_string(op);
      EXPECT_EQ(is_reducible(type, op), !bits || t < 8) << to_string(op) << " of " << to_string(type);
      if (is_reducible(type, op)) {
        EXPECT_NO_THROW(expect_reducible(type, op));
        continue;
      }
      try {
        expect_reducible(type, op);
        FAIL() << to_string(op) << " of " << to_string(type);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_input);
        EXPECT_EQ(error.message(), std::string(to_string(op)) + " is for integers, not " +
                                       std::string(to_string(type)) + "; give the same bits as uint" +
                                       std::to_string(8 * size_of(type)));
      }
    }
  }
}

template <typename T>
T written(DataType type, double value) {
  T element{};
  write_element(type, reinterpret_cast<std::byte*>(&element), value);
  EXPECT_EQ(read_element(type, reinterpret_cast<const std::byte*>(&element)), value);
  return element;
}

TEST(DataType, ReadsAndWritesElementsAsNumbers) {
  EXPECT_EQ(written<int8_t>(DataType::int8, -128), -128);
  EXPECT_EQ(written<uint8_t>(DataType::uint8, 255), 255);
  EXPECT_EQ(written<int16_t>(DataType::int16, -32768), -32768);
  EXPECT_EQ(written<uint16_t>(DataType::uint16, 65535), 65535);
  EXPECT_EQ(written<int32_t>(DataType::int32, -5), -5);
  EXPECT_EQ(written<uint32_t>(DataType::uint32, 4294967295.0), 4294967295u);
  EXPECT_EQ(written<int64_t>(DataType::int64, -0x1p63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(written<uint64_t>(DataType::uint64, 0x1p63), uint64_t{1} << 63);
  EXPECT_EQ(written<float>(DataType::float32, 0.5), 0.5f);
  EXPECT_EQ(written<double>(DataType::float64, 0.1), 0.1);
  EXPECT_EQ(written<uint16_t>(DataType::float16, -2), 0xc000);
  EXPECT_EQ(written<uint16_t>(DataType::float16, 0x1p-24), 0x0001);
  EXPECT_EQ(written<uint16_t>(DataType::bfloat16, -2), 0xc000);
}

TEST(DataType, RoundsToSixteenBitsOnce) {
  const auto rounded = [](DataType type, double value) {
    uint16_t element = 0;
    write_element(type, reinterpret_cast<std::byte*>(&element), value);
    return element;
  };
  // A little above half-way between 1 and its neighbour, by less than a float32 can say.
  EXPECT_EQ(rounded(DataType::float16, 1 + 0x1p-11), 0x3c00);
  EXPECT_EQ(rounded(DataType::float16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(rounded(DataType::float16, 1 + 0x3p-11 - 0x1p-40), 0x3c01);
  EXPECT_EQ(rounded(DataType::bfloat16, 1 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(rounded(DataType::float16, 65519.99), 0x7bff);
  EXPECT_EQ(rounded(DataType::float16, 65520), 0x7c00);
  EXPECT_EQ(rounded(DataType::float16, 1e300), 0x7c00);
  EXPECT_EQ(rounded(DataType::float16, -1e-300), 0x8000);
}

TEST(DataType, NamesWhatIsKnownWhenAskedForAnother) {
  const auto complaint = [](auto parse) -> std::string {
    return testing::error_of([&] { parse(); }, ErrorCode::invalid_input);
  };
  EXPECT_EQ(
      complaint([] { parse_data_type("flaot32"); }),
      "unknown data type 'flaot32' (did you mean 'float32'?); known are int8, int16, int32, int64, uint8, uint16, "
      "uint32, uint64, float16, bfloat16, float32, float64");
  EXPECT_THAT(complaint([] { parse_reduce_op(""); }),
              HasSubstr("unknown reduction ''; known are sum, prod, min, max, avg, premul_sum, band, bor, bxor"));
}

}  // namespace
}  // namespace banyan::element
