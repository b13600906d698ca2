// Reductions, scaling and copies of any type, count and placement in memory give what one element at a time gives.
#include "banyan/element/reduce.h"

#include <bit>

#include "banyan/element/test_kernels.h"
#include "banyan/testing/test.h"

namespace banyan::element {
namespace {

constexpr size_t kMost = 1000, kMostSources = 9;

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

class EveryType : public WithIsa, public ::testing::WithParamInterface<std::tuple<Isa, DataType>> {
 protected:
  void SetUp() override { use_or_skip(std::get<0>(GetParam())); }
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

INSTANTIATE_TEST_SUITE_P(Reduce, Kernels, ::testing::Values(Isa::portable, Isa::avx2, Isa::avx512),
                         [](const auto& test) { return std::string(to_string(test.param)); });

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

// Written out by hand, so that and is not taken for or; of a shape no table of bits shares with another. Every byte is
// turned by its position.
TEST_P(Kernels, CombineBits) {
  const auto pattern = [](uint8_t bits, size_t bytes) {
    std::vector<std::byte> all(bytes);
    for (size_t i = 0; i < bytes; ++i) all[i] = std::byte{std::rotl(bits, static_cast<int>(i * 3 % 8))};
    return all;
  };
  for (const DataType type : {DataType::int8, DataType::uint16, DataType::int32, DataType::uint64}) {
    const size_t size = size_of(type);
    for (const size_t count : {1u, 5u, 33u, 1003u}) {
      const size_t bytes = count * size;
      const std::vector<std::byte> a = pattern(0b1111'0000, bytes), b = pattern(0b1100'1100, bytes),
                                   c = pattern(0b1010'1010, bytes);
      const std::byte* const sources[] = {a.data(), b.data(), c.data()};
      const auto of = [&](ReduceOp op) {
        std::vector<std::byte> result(a.size());
        reduce({.type = type, .op = op}, result.data(), nullptr, sources, count);
        return result;
      };
      EXPECT_EQ(of(ReduceOp::band), pattern(0b1000'0000, bytes));
      EXPECT_EQ(of(ReduceOp::bor), pattern(0b1111'1110, bytes));
      EXPECT_EQ(of(ReduceOp::bxor), pattern(0b1001'0110, bytes));
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
    EXPECT_THAT(testing::error_of([&] { scale(DataType::int32, bytes, bytes, 1, factor); }, ErrorCode::invalid_input),
                HasSubstr("cannot multiply int32"))
        << factor;
  }
  EXPECT_EQ(value, 5);
}

}  // namespace
}  // namespace banyan::element
