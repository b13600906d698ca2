#include "banyan/element/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/element/isa.h"

namespace banyan::element {
namespace {

using ::testing::HasSubstr;

// A reference that shares nothing with the kernels: one element at a time, 16-bit floats by their definition.

struct Format {
  int exponent_bits, fraction_bits;
};
constexpr Format kHalf = {5, 10}, kBrain = {8, 7};
Format format_of(DataType type) { return type == DataType::float16 ? kHalf : kBrain; }

double decode(Format format, uint32_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> format.fraction_bits & ((1u << format.exponent_bits) - 1));
  const double sign = bits >> 15 == 0 ? 1 : -1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - format.fraction_bits);
  return sign * std::ldexp(fraction + (1u << format.fraction_bits), exponent - bias - format.fraction_bits);
}

uint32_t encode(Format format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
  if (std::isnan(value)) return infinity | 1u << (format.fraction_bits - 1);
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isinf(value)) return sign | infinity;
  // In units of the last place, where nearbyint rounds to even.
  const int exponent = std::max(value == 0 ? -10'000 : std::ilogb(value), 1 - bias);
  const auto units =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(std::abs(value), format.fraction_bits - exponent)));
  // A fraction that is full carries into the exponent, and the leading one of a normal number counts as one of it.
  const uint32_t bits = (static_cast<uint32_t>(exponent + bias - 1) << format.fraction_bits) + units;
  return sign | std::min(bits, infinity);
}

template <typename T>
T one_nan(T value) {
  if (!std::isnan(value)) return value;
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<float>(0x7fc00000u);
  else
    return std::bit_cast<double>(uint64_t{0x7ff8} << 48);
}

template <typename T>
T apply(ReduceOp op, T left, T right) {
  if (op == ReduceOp::min || op == ReduceOp::max) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(left)) return right;
      if (std::isnan(right)) return left;
    }
    if (op == ReduceOp::min) return right < left ? right : left;
    return right > left ? right : left;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::band) return static_cast<T>(left & right);
    if (op == ReduceOp::bor) return static_cast<T>(left | right);
    if (op == ReduceOp::bxor) return static_cast<T>(left ^ right);
  }
  if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::prod ? left * right : left + right;
  } else {
    const auto a = static_cast<uint64_t>(left), b = static_cast<uint64_t>(right);
    return static_cast<T>(op == ReduceOp::prod ? a * b : a + b);
  }
}

template <typename T>
T fold(ReduceOp op, uint32_t divisor, const std::vector<T>& values) {
  T result = values[0];
  for (size_t k = 1; k < values.size(); ++k) result = apply(op, result, values[k]);
  if (op != ReduceOp::avg || divisor == 1) return result;
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return static_cast<T>(static_cast<int64_t>(result) / static_cast<int64_t>(divisor));
  } else {
    return static_cast<T>(result / static_cast<T>(divisor));
  }
}

template <typename T>
void reference_as(const ReduceTask& task, std::byte* result, const std::vector<const std::byte*>& sources) {
  std::vector<T> values(sources.size());
  for (size_t k = 0; k < sources.size(); ++k) std::memcpy(&values[k], sources[k], sizeof(T));
  T value;
  if constexpr (std::is_integral_v<T> && sizeof(T) < 4) {
    // Divisors may be larger than the type, so divide as wider ones.
    std::vector<T> sum = {fold(task.op == ReduceOp::avg ? ReduceOp::sum : task.op, 1, values)};
    value = task.op == ReduceOp::avg ? static_cast<T>(static_cast<int64_t>(sum[0]) / task.divisor) : sum[0];
  } else {
    value = fold(task.op, task.divisor, values);
    if constexpr (std::is_floating_point_v<T>) value = one_nan(value);
  }
  std::memcpy(result, &value, sizeof value);
}

// One element.
void reference(const ReduceTask& task, std::byte* result, const std::vector<const std::byte*>& sources) {
  const size_t size = size_of(task.type);
  if (sources.size() == 1 && (task.op != ReduceOp::avg || task.divisor == 1)) {
    std::memcpy(result, sources[0], size);
    return;
  }
  switch (task.type) {
    case DataType::int8:
      return reference_as<int8_t>(task, result, sources);
    case DataType::int16:
      return reference_as<int16_t>(task, result, sources);
    case DataType::int32:
      return reference_as<int32_t>(task, result, sources);
    case DataType::int64:
      return reference_as<int64_t>(task, result, sources);
    case DataType::uint8:
      return reference_as<uint8_t>(task, result, sources);
    case DataType::uint16:
      return reference_as<uint16_t>(task, result, sources);
    case DataType::uint32:
      return reference_as<uint32_t>(task, result, sources);
    case DataType::uint64:
      return reference_as<uint64_t>(task, result, sources);
    case DataType::float32:
      return reference_as<float>(task, result, sources);
    case DataType::float64:
      return reference_as<double>(task, result, sources);
    case DataType::float16:
    case DataType::bfloat16:
      break;
  }
  std::vector<float> values(sources.size());
  for (size_t k = 0; k < sources.size(); ++k) {
    uint16_t bits = 0;
    std::memcpy(&bits, sources[k], sizeof bits);
    values[k] = static_cast<float>(decode(format_of(task.type), bits));
  }
  const auto bits =
      static_cast<uint16_t>(encode(format_of(task.type), static_cast<double>(fold(task.op, task.divisor, values))));
  std::memcpy(result, &bits, sizeof bits);
}

constexpr size_t kMost = 1000, kMostSources = 9;
constexpr DataType kTypes[] = {DataType::int8,    DataType::int16,    DataType::int32,   DataType::int64,
                               DataType::uint8,   DataType::uint16,   DataType::uint32,  DataType::uint64,
                               DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64};

std::vector<ReduceOp> ops_of(DataType type) {
  std::vector<ReduceOp> ops;
  for (size_t i = 0; i < kReduceOps; ++i) {
    if (const auto op = static_cast<ReduceOp>(i); is_reducible(type, op)) ops.push_back(op);
  }
  return ops;
}

// Any bits; of floats, one in four is a value that is treated specially somewhere.
std::vector<std::byte> random_elements(DataType type, size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count * size_of(type));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (!is_floating(type)) return bytes;
  constexpr double kSpecial[] = {0.0,      -0.0,  1.0,  -1.0, 3e-8,     -6e-8,    65504.0,
                                 -65504.0, 1e-40, 1e39, NAN,  INFINITY, -INFINITY};
  for (size_t i = 0; i < count; ++i) {
    if (random() % 4 == 0)
      write_element(type, bytes.data() + i * size_of(type), kSpecial[random() % std::size(kSpecial)]);
  }
  return bytes;
}

std::string name_of(const ReduceTask& task) {
  return std::string(to_string(task.type)) + " " + std::string(to_string(task.op)) + " / " +
         std::to_string(task.divisor) + (task.streaming ? " streaming" : "");
}

// Runs with the kernels of one instruction set, and says so when the machine lacks it.
class Kernels : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    const std::vector<Isa> available = available_isas();
    if (std::find(available.begin(), available.end(), GetParam()) == available.end()) {
      GTEST_SKIP() << "this machine has no " << to_string(GetParam());
    }
    before_ = active_isa();
    use_isa(GetParam());
  }
  void TearDown() override {
    if (before_) use_isa(*before_);
  }

 private:
  std::optional<Isa> before_;
};
INSTANTIATE_TEST_SUITE_P(Reduce, Kernels, ::testing::Values(Isa::portable, Isa::avx2, Isa::avx512),
                         [](const auto& test) { return std::string(to_string(test.param)); });

struct Placement {
  size_t shift = 0;                // bytes off alignment, of the result; sources are shifted differently
  std::optional<size_t> in_place;  // the source that the result lies upon
  bool has_second = false, streaming = false;
};

std::vector<Placement> placements(size_t element, size_t sources) {
  std::vector<Placement> all;
  for (const size_t shift : {size_t{0}, element, size_t{1}, 64 - element}) {
    for (const bool second : {false, true}) {
      for (const bool streaming : {false, true}) {
        all.push_back({shift, std::nullopt, second, streaming});
        all.push_back({shift, 0, second, streaming});
        if (sources > 1) all.push_back({shift, sources - 1, second, streaming});
      }
    }
  }
  return all;
}

// Buffers with bytes around them that nobody may change.
class Bench {
 public:
  static constexpr size_t kMargin = 128;
  static constexpr std::byte kUntouched{0xa5};

  explicit Bench(size_t buffers) : buffers_(buffers, std::vector<std::byte>(kMost * 8 + 3 * kMargin)) {}

  std::byte* place(size_t buffer, size_t shift, const std::vector<std::byte>& bytes, size_t size) {
    std::vector<std::byte>& memory = buffers_[buffer];
    std::fill(memory.begin(), memory.begin() + static_cast<ptrdiff_t>(size + 3 * kMargin), kUntouched);
    std::byte* const aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    std::byte* const at = aligned + 64 + shift;
    if (!bytes.empty()) std::memcpy(at, bytes.data(), size);
    return at;
  }
  static bool is_untouched_around(const std::byte* at, size_t size) {
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    return std::all_of(at - 64, at, untouched) && std::all_of(at + size, at + size + 64, untouched);
  }

 private:
  std::vector<std::vector<std::byte>> buffers_;
};

void expect_placed(const ReduceTask& task, const std::vector<std::vector<std::byte>>& inputs,
                   const std::vector<std::byte>& expected, size_t count, const Placement& placement, Bench& bench) {
  const size_t size = count * size_of(task.type);
  std::vector<const std::byte*> sources;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const size_t shift = placement.in_place == k ? placement.shift : (placement.shift * (k + 2) + k) % 64;
    sources.push_back(bench.place(k, shift, inputs[k], size));
  }
  std::byte* const result = placement.in_place ? const_cast<std::byte*>(sources[*placement.in_place])
                                               : bench.place(kMostSources, placement.shift, {}, size);
  std::byte* const second = bench.place(kMostSources + 1, (placement.shift * 3 + 5) % 64, {}, size);
  ReduceTask placed = task;
  placed.streaming = placement.streaming;
  reduce(placed, result, placement.has_second ? second : nullptr, sources, count);
  const std::string what = name_of(placed) + ", " + std::to_string(inputs.size()) + " sources of " +
                           std::to_string(count) + " shifted by " + std::to_string(placement.shift);
  for (size_t i = 0; i < size; ++i) ASSERT_EQ(result[i], expected[i]) << what << ", byte " << i;
  ASSERT_TRUE(Bench::is_untouched_around(result, size)) << what;
  if (placement.has_second) {
    ASSERT_TRUE(std::equal(second, second + size, expected.begin())) << what << ", second";
  }
  ASSERT_TRUE(Bench::is_untouched_around(second, placement.has_second ? size : 0)) << what << ", second";
}

class EveryType : public ::testing::WithParamInterface<std::tuple<Isa, DataType>>, public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<Isa> available = available_isas();
    const Isa isa = std::get<0>(GetParam());
    if (std::find(available.begin(), available.end(), isa) == available.end()) {
      GTEST_SKIP() << "this machine has no " << to_string(isa);
    }
    before_ = active_isa();
    use_isa(isa);
  }
  void TearDown() override {
    if (before_) use_isa(*before_);
  }

 private:
  std::optional<Isa> before_;
};
INSTANTIATE_TEST_SUITE_P(Reduce, EveryType,
                         ::testing::Combine(::testing::Values(Isa::portable, Isa::avx2, Isa::avx512),
                                            ::testing::ValuesIn(kTypes)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) + "_" +
                                  std::string(to_string(std::get<1>(test.param)));
                         });

TEST_P(EveryType, IsReducedAsElementByElement) {
  const DataType type = std::get<1>(GetParam());
  const size_t element = size_of(type);
  std::mt19937_64 random(7);
  Bench bench(kMostSources + 2);
  for (const ReduceOp op : ops_of(type)) {
    for (const size_t sources : {1u, 2u, 3u, 4u, 7u}) {
      const uint32_t divisor = op == ReduceOp::avg ? static_cast<uint32_t>(sources == 7 ? 300 : sources) : 1;
      const ReduceTask task = {.type = type, .op = op, .divisor = divisor};
      std::vector<std::vector<std::byte>> inputs;
      for (size_t k = 0; k < sources; ++k) inputs.push_back(random_elements(type, kMost, random));
      std::vector<std::byte> expected(kMost * element);
      for (size_t i = 0; i < kMost; ++i) {
        std::vector<const std::byte*> one;
        for (const auto& input : inputs) one.push_back(input.data() + i * element);
        reference(task, expected.data() + i * element, one);
      }
      for (const size_t count : {0u, 1u, 3u, 15u, 16u, 17u, 63u, 64u, 65u, 1000u}) {
        for (const Placement& placement : placements(element, sources)) {
          expect_placed(task, inputs, expected, count, placement, bench);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Blocks are many here, and more sources than are folded at a time.
TEST_P(EveryType, GivesTheBitsOfThePortableKernels) {
  const auto [isa, type] = GetParam();
  constexpr size_t kCount = 9001;
  std::mt19937_64 random(11);
  for (const ReduceOp op : ops_of(type)) {
    for (const size_t sources : {2u, 5u, 9u}) {
      std::vector<std::vector<std::byte>> inputs;
      std::vector<const std::byte*> from;
      for (size_t k = 0; k < sources; ++k) inputs.push_back(random_elements(type, kCount, random));
      for (const auto& input : inputs) from.push_back(input.data());
      const ReduceTask task = {.type = type, .op = op, .divisor = static_cast<uint32_t>(sources)};
      std::vector<std::byte> result(kCount * size_of(type)), portable(result.size());
      use_isa(isa);
      reduce(task, result.data(), nullptr, from, kCount);
      use_isa(Isa::portable);
      reduce(task, portable.data(), nullptr, from, kCount);
      ASSERT_EQ(std::memcmp(result.data(), portable.data(), result.size()), 0) << name_of(task) << " of " << sources;
    }
  }
}

TEST_P(EveryType, IsScaled) {
  const DataType type = std::get<1>(GetParam());
  const size_t element = size_of(type);
  std::mt19937_64 random(13);
  const std::vector<std::byte> input = random_elements(type, kMost, random);
  for (const double factor : {3.0, -2.0, 0.0, is_floating(type) ? 0.1 : 9007199254740992.0}) {
    std::vector<std::byte> expected(input.size()), multiplier(element);
    if (is_floating(type)) {
      // The factor of 16-bit floats is not rounded to 16 bits, so the product of float32 is the reference.
      const DataType wide = type == DataType::float64 ? type : DataType::float32;
      std::vector<std::byte> number(size_of(wide)), by(size_of(wide));
      for (size_t i = 0; i < kMost; ++i) {
        write_element(wide, number.data(), read_element(type, input.data() + i * element));
        write_element(wide, by.data(), factor);
        reference({.type = wide, .op = ReduceOp::prod}, number.data(), {number.data(), by.data()});
        const double product = read_element(wide, number.data());
        if (element > 2) {
          std::memcpy(expected.data() + i * element, number.data(), element);
        } else {
          const auto bits = static_cast<uint16_t>(encode(format_of(type), product));
          std::memcpy(expected.data() + i * element, &bits, sizeof bits);
        }
      }
    } else {
      const auto whole = static_cast<int64_t>(factor);
      std::memcpy(multiplier.data(), &whole, element);
      for (size_t i = 0; i < kMost; ++i) {
        reference({.type = type, .op = ReduceOp::prod}, expected.data() + i * element,
                  {input.data() + i * element, multiplier.data()});
      }
    }
    for (const size_t count : {0u, 1u, 15u, 16u, 17u, 65u, 1000u}) {
      std::vector<std::byte> result(count * element + 1, Bench::kUntouched), in_place = input;
      scale(type, result.data(), input.data(), count, factor);
      scale(type, in_place.data(), in_place.data(), count, factor);
      ASSERT_TRUE(std::equal(result.begin(), result.end() - 1, expected.begin())) << count << " by " << factor;
      ASSERT_EQ(result.back(), Bench::kUntouched);
      ASSERT_TRUE(std::equal(result.begin(), result.end() - 1, in_place.begin()));
      ASSERT_TRUE(std::equal(in_place.begin() + static_cast<ptrdiff_t>(count * element), in_place.end(),
                             input.begin() + static_cast<ptrdiff_t>(count * element)));
    }
  }
}

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

TEST_P(Kernels, CopyAnyBytesFromAnywhereToAnywhere) {
  std::mt19937_64 random(23);
  const std::vector<std::byte> from = random_elements(DataType::uint8, 5000, random);
  for (const bool streaming : {false, true}) {
    for (const size_t bytes : {0u, 1u, 7u, 31u, 63u, 64u, 65u, 127u, 200u, 4097u}) {
      for (const size_t shift : {0u, 1u, 5u, 32u, 63u}) {
        std::vector<std::byte> to(5200, Bench::kUntouched);
        copy(to.data() + 64 + shift, from.data() + 3 * shift, bytes, streaming);
        ASSERT_EQ(std::memcmp(to.data() + 64 + shift, from.data() + 3 * shift, bytes), 0) << bytes << " at " << shift;
        ASSERT_TRUE(Bench::is_untouched_around(to.data() + 64 + shift, bytes)) << bytes << " at " << shift;
      }
    }
  }
}

// Written out by hand, so that and is not taken for or; of a shape no table of bits shares with another.
TEST_P(Kernels, CombineBits) {
  for (const DataType type : {DataType::int8, DataType::uint16, DataType::int32, DataType::uint64}) {
    const size_t size = size_of(type);
    for (const size_t count : {1u, 5u, 33u, 1003u}) {
      const std::vector<std::byte> a(count * size, std::byte{0b1111'0000}), b(a.size(), std::byte{0b1100'1100}),
          c(a.size(), std::byte{0b1010'1010});
      const std::byte* const sources[] = {a.data(), b.data(), c.data()};
      const auto of = [&](ReduceOp op) {
        std::vector<std::byte> result(a.size());
        reduce({.type = type, .op = op}, result.data(), nullptr, sources, count);
        return result;
      };
      EXPECT_THAT(of(ReduceOp::band), ::testing::Each(std::byte{0b1000'0000}));
      EXPECT_THAT(of(ReduceOp::bor), ::testing::Each(std::byte{0b1111'1110}));
      EXPECT_THAT(of(ReduceOp::bxor), ::testing::Each(std::byte{0b1001'0110}));
    }
  }
}

TEST(ReduceDeathTest, TakesBitsOfFloatsForOurOwnBug) {
  float value = 1;
  auto* const bytes = reinterpret_cast<std::byte*>(&value);
  const std::byte* const sources[] = {bytes, bytes};
  EXPECT_DEATH(reduce({.type = DataType::float32, .op = ReduceOp::bxor}, bytes, nullptr, sources, 1),
               "bxor of float32");
}

TEST(Scale, RefusesFactorsThatIntegersDoNotHave) {
  int32_t value = 5;
  auto* const bytes = reinterpret_cast<std::byte*>(&value);
  for (const double factor : {0.5, 1e17, -1e300, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    try {
      scale(DataType::int32, bytes, bytes, 1, factor);
      FAIL() << "accepted " << factor;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.what(), HasSubstr("cannot multiply int32"));
    }
  }
  EXPECT_EQ(value, 5);
}

}  // namespace
}  // namespace banyan::element
