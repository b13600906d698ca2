#include "banyan/tensor/lossless.h"

#include <zstd.h>

#include "banyan/element/reduce.h"
#include "banyan/testing/test.h"

namespace banyan::tensor {
namespace {

using Bytes = std::vector<std::byte>;

Bytes decoded_lossless(const Bytes& coded) {
  Bytes elements(read_lossless(coded).bytes);
  decode_lossless(coded, elements);
  return elements;
}

Bytes random_bytes(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes result(bytes);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

// Gaussian float32 whose scale changes by layer.
Bytes gradients(size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  Bytes bytes(4 * count);
  for (size_t i = 0; i < count; ++i) {
    const float value = normal(random) * std::exp2(static_cast<float>(i / 50'000 % 5) - 9);
    std::memcpy(&bytes[4 * i], &value, 4);
  }
  return bytes;
}

std::string error_of(const Bytes& coded) {
  return testing::error_of([&] { decoded_lossless(coded); }, ErrorCode::invalid_input);
}

TEST(Lossless, GivesBackEveryByte) {
  for (const size_t size : {size_t{2}, size_t{4}, size_t{8}}) {
    for (const size_t count : {0, 1, 2, 7, 1000, 1 << 18, (1 << 18) + 1, 600'000}) {
      Bytes elements = random_bytes(count * size, 3);
      for (const bool is_compressible : {false, true}) {
        if (is_compressible) {
          for (size_t i = 0; i < elements.size(); ++i) {
            if (i % size >= size / 2) elements[i] = static_cast<std::byte>(i / 1000);
          }
        }
        const Bytes coded = encode_lossless(elements, {.element_bytes = size});
        EXPECT_LE(coded.size(), most_lossless_bytes(elements.size(), size));
        EXPECT_EQ(read_lossless(coded).element_bytes, size);
        ASSERT_TRUE(decoded_lossless(coded) == elements) << size << " x " << count;
        EXPECT_LT(coded.size(), is_compressible && count >= 1000 ? elements.size() * 6 / 10 : elements.size() + 200);
      }
    }
  }
}

TEST(Lossless, MakesFloatsSmaller) {
  const Bytes floats = gradients(500'000);
  const Bytes coded = encode_lossless(floats, {.element_bytes = 4});
  EXPECT_LT(coded.size(), floats.size() * 88 / 100);
  Bytes halves(floats.size() / 2);
  element::narrow(element::DataType::bfloat16, halves.data(), reinterpret_cast<const float*>(floats.data()), 500'000);
  const Bytes coded_halves = encode_lossless(halves, {.element_bytes = 2});
  EXPECT_LT(coded_halves.size(), halves.size() * 75 / 100);
  EXPECT_TRUE(decoded_lossless(coded) == floats);
  EXPECT_TRUE(decoded_lossless(coded_halves) == halves);
  // Without planes, zstd finds hardly anything.
  Bytes plain(ZSTD_compressBound(floats.size()));
  EXPECT_GT(ZSTD_compress(plain.data(), plain.size(), floats.data(), floats.size(), 1), floats.size() * 92 / 100);
}

TEST(Lossless, IsLongerByLittleWhereNothingIsGained) {
  const Bytes noise = random_bytes(1 << 20, 9);
  EXPECT_EQ(encode_lossless(noise, {.element_bytes = 4}).size(), noise.size() + 16 + 4 * 4);
}

TEST(Lossless, FindsBytesThatAreCutOffAnywhere) {
  const Bytes coded = encode_lossless(gradients(300), {.element_bytes = 4});
  for (size_t bytes = 0; bytes < coded.size(); ++bytes) {
    const Bytes part(coded.begin(), coded.begin() + static_cast<ptrdiff_t>(bytes));
    ASSERT_THAT(error_of(part), HasSubstr(bytes < 16 ? "header of 16 bytes" : "they are damaged or were cut off"));
  }
  Bytes longer = coded;
  longer.push_back(std::byte{0});
  EXPECT_THAT(error_of(longer), HasSubstr("and 1 bytes follow; they are damaged"));
}

TEST(Lossless, ChecksLengthsBeforeMemoryIsTaken) {
  const Bytes coded = encode_lossless(gradients(300), {.element_bytes = 4});
  const auto with = [&](size_t at, const auto& number) {
    Bytes changed = coded;
    std::memcpy(&changed[at], &number, sizeof number);
    return error_of(changed);
  };
  EXPECT_THAT(with(0, 'X'), HasSubstr("begin with 'BNZ1'"));
  EXPECT_THAT(with(4, uint32_t{3}), HasSubstr("2, 4 or 8 bytes each, not 3"));
  EXPECT_THAT(with(8, ~uint64_t{0}), HasSubstr("18446744073709551615 of them are more than there can be"));
  EXPECT_THAT(with(8, uint64_t{1} << 60), HasSubstr("cut off"));
  EXPECT_THAT(with(8, uint64_t{299}), HasSubstr("plane 0 of piece 0 has 300 bytes for 299 elements"));
  EXPECT_THAT(with(16, uint32_t{0}), HasSubstr("plane 0 of piece 0 has 0 bytes"));
  EXPECT_THAT(with(16, ~uint32_t{0}), HasSubstr("plane 0 of piece 0 has 4294967295 bytes"));
}

TEST(Lossless, SaysWhichPlaneIsDamaged) {
  Bytes coded = encode_lossless(Bytes(4000, std::byte{7}), {.element_bytes = 4});
  coded[20] ^= std::byte{0xff};  // zstd's magic number
  EXPECT_THAT(error_of(coded), HasSubstr("zstd cannot read plane 0 of piece 0: "));
}

}  // namespace
}  // namespace banyan::tensor
