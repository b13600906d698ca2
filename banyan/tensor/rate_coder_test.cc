#include "banyan/tensor/rate_coder.h"

#include <limits>

#include "banyan/tensor/test_values.h"
#include "banyan/testing/test.h"

namespace banyan::tensor {
namespace {

// Columns with scales of their own about means of their own; rows with scales of their own.
std::vector<float> matrix(size_t rows, size_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      values.push_back(static_cast<float>(column % 5) + normal(random) * static_cast<float>(1 + column % 3 + row % 4));
    }
  }
  return values;
}

std::vector<float> decoded(const std::vector<std::byte>& coded) {
  std::vector<float> values(read_at_rate(coded).elements);
  decode_at_rate(coded, values);
  return values;
}

double relative_error(const std::vector<float>& values, const std::vector<float>& others) {
  double squares = 0, energy = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    squares += std::pow(double{values[i]} - double{others[i]}, 2);
    energy += std::pow(double{values[i]}, 2);
  }
  return std::sqrt(squares / energy);
}

TEST(RateCoder, MeetsTheRateWithinTwoPercentAndErrsLessWithMoreBits) {
  const std::vector<float> values = matrix(256, 96, 1);
  double error = 1;
  for (double bits = 1; bits <= 12; bits += 0.5) {
    const std::vector<std::byte> coded = encode_at_rate(values, {.bits = bits, .row_elements = 96});
    const double rate = 8 * static_cast<double>(coded.size()) / static_cast<double>(values.size());
    EXPECT_LE(rate, bits);
    EXPECT_GE(rate, 0.98 * bits);
    const double now = relative_error(values, decoded(coded));
    EXPECT_LT(now, error) << bits;
    error = now;
  }
}

// An entropy-coded uniform quantiser of Gaussian values is 1.53 dB from the rate-distortion bound 2^-bits.
TEST(RateCoder, IsAsNearToTheBoundAsAQuantiserCanBe) {
  const std::vector<float> values = gaussian(1 << 17, 2);
  for (const double bits : {3.0, 4.0, 6.0, 8.0}) {
    const std::vector<std::byte> coded = encode_at_rate(values, {.bits = bits, .row_elements = 512});
    const double rate = 8 * static_cast<double>(coded.size()) / static_cast<double>(values.size());
    const double above = 20 * std::log10(relative_error(values, decoded(coded)) / std::exp2(-rate));
    EXPECT_GT(above, 1.3) << bits;
    EXPECT_LT(above, 1.9) << bits;
  }
}

TEST(RateCoder, MakesWhatIsNotFiniteNaNAndLeavesTheRest) {
  std::vector<float> values = matrix(64, 32, 3);
  values[40] = std::numeric_limits<float>::infinity();
  values[700] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> back = decoded(encode_at_rate(values, {.bits = 8, .row_elements = 32}));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::isnan(back[i]), i == 40 || i == 700) << i;
    if (std::isfinite(values[i])) {
      EXPECT_NEAR(back[i], values[i], 1) << i;
    }
  }
}

TEST(RateCoder, TakesValuesOfAnyKind) {
  const float most = std::numeric_limits<float>::max(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& values : {std::vector<float>{0},
                                           {most},
                                           {-most, most, 1, 0},
                                           {1e-44F, -1e-42F},
                                           {nan},
                                           std::vector<float>(5000, 0),
                                           std::vector<float>(5000, -3),
                                           gaussian(1, 4),
                                           gaussian(7, 5)}) {
    for (const double bits : {kLeastRate, 3.0, kMostRate}) {
      const std::vector<float> back = decoded(encode_at_rate(values, {.bits = bits, .row_elements = values.size()}));
      for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(back[i]), std::isnan(values[i]));
    }
  }
  EXPECT_LT(encode_at_rate(std::vector<float>(100'000, 0), {.bits = 4, .row_elements = 100}).size(), 1000u);
}

std::string refusal_of(std::span<const std::byte> coded) {
  try {
    std::vector<float> values(read_at_rate(coded).elements);
    decode_at_rate(coded, values);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RateCoder, RefusesWhatIsCutOffOrTooLongOrNoHeader) {
  const std::vector<std::byte> coded = encode_at_rate(matrix(16, 32, 6), {.bits = 5, .row_elements = 32});
  EXPECT_EQ(refusal_of(coded), "");
  for (size_t size = 0; size < coded.size(); ++size) EXPECT_NE(refusal_of({coded.data(), size}), "") << size;
  std::vector<std::byte> longer = coded;
  longer.push_back(std::byte{1});
  EXPECT_THAT(refusal_of(longer), ::testing::HasSubstr("too many"));
  for (const size_t at : {0, 11, 12, 15, 19, 20}) {
    std::vector<std::byte> damaged = coded;
    damaged[at] = std::byte{0xff};
    EXPECT_NE(refusal_of({damaged.data(), 24}), "") << at;
  }
}

}  // namespace
}  // namespace banyan::tensor
