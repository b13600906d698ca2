// What codecs promise, with the kernels of every instruction set, against a reference written from the definition.
#include "banyan/codec/codec.h"

#include <array>
#include <limits>

#include "banyan/codec/test_codec.h"
#include "banyan/element/test_kernels.h"
#include "banyan/testing/test.h"

namespace banyan::codec {
namespace {

constexpr uint64_t kSeed = 17;
constexpr size_t kSizes[] = {0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 511, 1000, 2560};

class Codecs : public element::Kernels {};
INSTANTIATE_TEST_SUITE_P(Isas, Codecs,
                         ::testing::Values(element::Isa::portable, element::Isa::avx2, element::Isa::avx512),
                         [](const auto& each) { return std::string(element::to_string(each.param)); });

// A float32 rounding of a sum of these.
float rounding_of(float a, float b) { return std::max({std::abs(a), std::abs(b), std::abs(a + b), 1e-37f}) * 0x1p-23f; }

// The first byte that differs, in words; empty where none does.
std::string difference(const std::vector<std::byte>& some, const std::vector<std::byte>& others) {
  const auto [a, b] = std::mismatch(some.begin(), some.end(), others.begin(), others.end());
  if (a == some.end() && b == others.end()) return "";
  if (a == some.end() || b == others.end())
    return std::to_string(some.size()) + " bytes, not " + std::to_string(others.size());
  return "byte " + std::to_string(a - some.begin()) + " of " + std::to_string(some.size()) + " is " +
         std::to_string(std::to_integer<int>(*a)) + ", not " + std::to_string(std::to_integer<int>(*b));
}

TEST(CodecNames, AreReadAndWritten) {
  for (const Codec& codec : all_codecs()) EXPECT_EQ(parse_codec(to_string(codec)), codec) << to_string(codec);
  EXPECT_EQ(parse_codec("bf16").code, ValueCode::bfloat16);
  EXPECT_EQ(parse_codec("fp16").code, ValueCode::float16);
  EXPECT_EQ(parse_codec("f16").code, ValueCode::float16);
  EXPECT_EQ(parse_codec("1bit").code, ValueCode::sign);
  EXPECT_EQ(to_string(parse_codec("int4:stochastic")), "int4:stochastic");
}

std::string message_of(std::string_view name) {
  return testing::error_of([&] { parse_codec(name); }, ErrorCode::invalid_input);
}

TEST(CodecNames, UnknownOnesAreAnsweredWithAllThatAreKnown) {
  EXPECT_THAT(message_of("int9"), HasSubstr("unknown codec 'int9' (did you mean 'int8'?); known are bfloat16, "));
  EXPECT_THAT(message_of("int9"), HasSubstr("mxfp4:stochastic, sign"));
  EXPECT_THAT(message_of(""), HasSubstr("unknown codec ''"));
  EXPECT_THAT(message_of(":stochastic"), HasSubstr("unknown codec"));
  EXPECT_THAT(message_of("bf16:stochastic"), HasSubstr("'bfloat16' does not round stochastically"));
  EXPECT_THAT(message_of("sign:stochastic"), HasSubstr("'sign' does not round stochastically"));
}

TEST(CodecTraits, AreThoseOfTheTable) {
  const std::array<size_t, kValueCodes> bytes = {512, 512, 260, 264, 260, 136, 136, 36};
  for (const Codec& codec : all_codecs()) {
    const CodecTraits traits = traits_of(codec);
    EXPECT_EQ(traits.block_bytes, bytes[static_cast<size_t>(codec.code)]);
    EXPECT_EQ(traits.is_unbiased, codec.is_stochastic);
    EXPECT_EQ(coded_bytes(codec, 0), 0u);
    EXPECT_EQ(coded_bytes(codec, 1), traits.block_bytes);
    EXPECT_EQ(coded_bytes(codec, 256), traits.block_bytes);
    EXPECT_EQ(coded_bytes(codec, 257), 2 * traits.block_bytes);
  }
  EXPECT_TRUE(traits_of(parse_codec("int8")).needs_residual);
  EXPECT_FALSE(traits_of(parse_codec("int8:stochastic")).needs_residual);
  EXPECT_TRUE(traits_of(parse_codec("sign")).needs_residual);
  EXPECT_FALSE(traits_of(parse_codec("bfloat16")).needs_residual);
}

TEST_P(Codecs, GiveTheBytesAndLossesOfTheReference) {
  std::mt19937_64 random(kSeed);
  for (const Codec& codec : all_codecs()) {
    for (const Kind kind : kKinds) {
      for (const size_t count : kSizes) {
        for (const bool has_residual : {false, true}) {
          SCOPED_TRACE(codec::to_string(codec) + " " + to_string(kind) + " " + std::to_string(count) +
                       (has_residual ? " with residual" : ""));
          const std::vector<float> values = make_values(kind, count, random);
          std::vector<float> residual;
          if (has_residual) residual = make_values(kind, count, random);
          for (float& value : residual) value = std::isfinite(value) ? value / 128 : 0;
          const Randomness randomness = {.seed = random(), .first = random() % 1000 * kBlockValues};
          const Coded expected = reference_encode(codec, values, residual, randomness);
          const Coded coded = encoded(codec, values, residual, randomness);
          ASSERT_EQ(difference(coded.bytes, expected.bytes), "");
          ASSERT_EQ(bits_of(coded.lost), bits_of(expected.lost));
          // Without a place for what is lost, and with the residual as that place, the same.
          std::vector<std::byte> bytes(coded.bytes.size());
          const EncodeTask task = {.codec = codec,
                                   .values = values.data(),
                                   .residual = has_residual ? residual.data() : nullptr,
                                   .count = count,
                                   .randomness = randomness};
          encode(task, bytes.data());
          ASSERT_EQ(difference(bytes, expected.bytes), "");
          if (!has_residual) continue;
          EncodeTask in_place = task;
          in_place.lost = residual.data();
          encode(in_place, bytes.data());
          ASSERT_EQ(difference(bytes, expected.bytes), "");
          ASSERT_EQ(bits_of(residual), bits_of(expected.lost));
        }
      }
    }
  }
}

TEST_P(Codecs, HaveShortBlocksOfAnyLength) {
  std::mt19937_64 random(kSeed);
  for (const Codec& codec : all_codecs()) {
    const std::vector<float> values = make_values(Kind::wide, 300, random);
    for (size_t count = 1; count <= 257; ++count) {
      const std::vector<float> some(values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
      const Coded expected = reference_encode(codec, some, some, {.seed = count, .first = 512});
      const Coded coded = encoded(codec, some, some, {.seed = count, .first = 512});
      ASSERT_EQ(difference(coded.bytes, expected.bytes), "") << codec::to_string(codec) << " " << count;
      ASSERT_EQ(bits_of(coded.lost), bits_of(expected.lost)) << codec::to_string(codec) << " " << count;
      ASSERT_EQ(bits_of(decoded(codec, coded.bytes, count)), bits_of(reference_decode(codec, coded.bytes, count)));
    }
  }
}

TEST_P(Codecs, DecodeEveryCodeAsTheTableSays) {
  for (size_t c = 0; c < kValueCodes; ++c) {
    const Codec codec = {.code = static_cast<ValueCode>(c)};
    const std::vector<double> table = table_of(codec.code);
    if (codec.code == ValueCode::sign) continue;
    for (const float scale : {1.0f, 0.5f, 0x1p-127f, 0x1p100f, 0.0f, std::numeric_limits<float>::quiet_NaN()}) {
      const size_t count = std::max<size_t>(table.size(), kBlockValues);
      std::vector<std::byte> coded(coded_bytes(codec, count));
      const size_t block_bytes = traits_of(codec).block_bytes;
      for (size_t i = 0; i < count; ++i) {
        std::byte* const block = coded.data() + i / kBlockValues * block_bytes;
        const size_t at = i % kBlockValues;
        if (table.size() == 65536) {
          const auto half = static_cast<uint16_t>(i);
          std::memcpy(block + 2 * at, &half, 2);
          continue;
        }
        const size_t header = block_bytes % 8 == 0 ? 8 : 4;
        std::memcpy(block, &scale, 4);
        if (header == 8) {
          const int byte = std::isnan(scale) ? 255 : scale == 0 ? 0 : std::ilogb(scale) + 127;
          std::memset(block, byte, 8);
        }
        if (table.size() == 16) {
          block[header + at / 2] |= static_cast<std::byte>((i & 15) << (at % 2 * 4));
        } else {
          block[header + at] = static_cast<std::byte>(i);
        }
      }
      const std::vector<float> values = decoded(codec, coded, count);
      EXPECT_EQ(bits_of(values), bits_of(reference_decode(codec, coded, count))) << to_string(codec) << scale;
      if (scale == 1 && codec.code != ValueCode::bfloat16 && codec.code != ValueCode::float16) {
        for (size_t i = 0; i < table.size(); ++i) {
          EXPECT_TRUE(std::isnan(table[i]) || static_cast<double>(values[i]) == table[i]) << to_string(codec) << i;
        }
      }
    }
  }
}

TEST_P(Codecs, DecodeAnyBytesAndAddThem) {
  std::mt19937_64 random(kSeed);
  for (size_t c = 0; c < kValueCodes; ++c) {
    const Codec codec = {.code = static_cast<ValueCode>(c)};
    for (const size_t count : kSizes) {
      std::vector<std::byte> coded(coded_bytes(codec, count));
      for (std::byte& byte : coded) byte = static_cast<std::byte>(random());
      const std::vector<float> before = make_values(Kind::special, count, random);
      const std::vector<float> expected = reference_decode(codec, coded, count);
      EXPECT_EQ(bits_of(decoded(codec, coded, count)), bits_of(expected));
      for (const float factor : {1.0f, 0.25f, 1 / 3.0f, -3.0f}) {
        std::vector<float> values(count), sums = before;
        decode(codec, coded.data(), values.data(), count, factor);
        decode_add(codec, coded.data(), sums.data(), count, factor);
        for (size_t i = 0; i < count; ++i) {
          const float value = expected[i] * factor, sum = before[i] + value;
          ASSERT_TRUE(std::isnan(value) ? bits_of({values[i]})[0] == 0x7fc00000u : values[i] == value);
          ASSERT_TRUE(std::isnan(sum) ? bits_of({sums[i]})[0] == 0x7fc00000u : sums[i] == sum);
        }
      }
    }
  }
}

TEST_P(Codecs, LoseNothing) {
  std::mt19937_64 random(kSeed);
  for (const Codec& codec : all_codecs()) {
    for (const Kind kind : kKinds) {
      const std::vector<float> values = make_values(kind, 2700, random);
      std::vector<float> residual = make_values(Kind::gaussian, 2700, random);
      for (size_t i = 0; i < residual.size(); ++i) {
        residual[i] = std::isfinite(values[i]) ? values[i] / 200 * residual[i] : residual[i];
      }
      const Coded coded = encoded(codec, values, residual, {.seed = 3, .first = 0});
      const std::vector<float> result = decoded(codec, coded.bytes, values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        const std::string where = codec::to_string(codec) + " " + to_string(kind) + " " + std::to_string(i);
        if (std::isnan(result[i])) {
          ASSERT_EQ(bits_of({coded.lost[i]}), bits_of({residual[i]})) << where;
          continue;
        }
        ASSERT_TRUE(std::isfinite(result[i]) && std::isfinite(coded.lost[i])) << where << " " << values[i];
        const double before = static_cast<double>(values[i]) + static_cast<double>(residual[i]);
        const double after = static_cast<double>(result[i]) + static_cast<double>(coded.lost[i]);
        ASSERT_NEAR(before, after,
                    static_cast<double>(rounding_of(values[i], residual[i]) + rounding_of(result[i], coded.lost[i])))
            << where << " " << values[i] << " " << result[i];
      }
    }
  }
}

// Whole numbers whose scale is a power of two, or whose mean is: no rounding anywhere.
TEST_P(Codecs, LoseNothingAtAllOfWholeNumbers) {
  std::mt19937_64 random(kSeed);
  for (const Codec& codec : all_codecs()) {
    const int most = codec.code == ValueCode::int8 ? 127 : codec.code == ValueCode::fp8 ? 448 : 250;
    std::vector<float> values(777), residual(777);
    for (size_t i = 0; i < values.size(); ++i) {
      residual[i] = static_cast<float>(random() % 9) - 4;
      values[i] = static_cast<float>(random() % (2 * most + 1)) - static_cast<float>(most) - residual[i];
    }
    for (size_t i = 0; i < values.size(); i += 32) values[i] = static_cast<float>(most) - residual[i];
    if (codec.code == ValueCode::sign) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = (i % 3 == 0 ? -1.0f : 1.0f) * (i % 2 == 0 ? 40.0f : 24.0f) - residual[i];
      values.resize(768), residual.resize(768);
    }
    const Coded coded = encoded(codec, values, residual, {.seed = 5, .first = 256});
    const std::vector<float> result = decoded(codec, coded.bytes, values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i] + residual[i], result[i] + coded.lost[i]) << to_string(codec) << " at " << i;
    }
    if (codec.code == ValueCode::int8) {
      for (const float lost : coded.lost) ASSERT_EQ(lost, 0);
    }
  }
}

TEST_P(Codecs, KeepNaNInItsGroupAndTheResidualThere) {
  for (const Codec& codec : all_codecs()) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      for (const size_t at : {size_t{0}, size_t{31}, size_t{300}, size_t{599}}) {
        std::vector<float> values(600, 2.0f), residual(600, 0.25f);
        for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(i % 13);
        const Coded clean = encoded(codec, values, residual);
        values[at] = bad;
        const Coded coded = encoded(codec, values, residual);
        const std::vector<float> result = decoded(codec, coded.bytes, 600), other = decoded(codec, clean.bytes, 600);
        const size_t group = codec.code == ValueCode::bfloat16 || codec.code == ValueCode::float16 ? 1
                             : traits_of(codec).block_bytes % 8 == 0                               ? 32
                                                                                                   : 256;
        for (size_t i = 0; i < 600; ++i) {
          if (i / group == at / group) {
            ASSERT_TRUE(std::isnan(result[i])) << to_string(codec) << " at " << i;
            ASSERT_EQ(coded.lost[i], 0.25f);
          } else {
            ASSERT_EQ(result[i], other[i]) << to_string(codec) << " at " << i;
            ASSERT_EQ(coded.lost[i], clean.lost[i]);
          }
        }
      }
    }
  }
  // A sum of finite values that is not finite is none.
  const std::vector<float> huge(256, std::numeric_limits<float>::max());
  for (const Codec& codec : all_codecs()) {
    const Coded coded = encoded(codec, huge, huge);
    for (const float value : decoded(codec, coded.bytes, 256)) ASSERT_TRUE(std::isnan(value)) << to_string(codec);
    for (const float lost : coded.lost) ASSERT_EQ(lost, std::numeric_limits<float>::max());
  }
}

TEST_P(Codecs, DoNotOverflowAtTheLargestFloat) {
  for (const Codec& codec : all_codecs()) {
    const float most = std::numeric_limits<float>::max();
    const Coded coded = encoded(codec, {most, -most, most / 2, 1, 0});
    const std::vector<float> result = decoded(codec, coded.bytes, 5);
    for (const float value : result) EXPECT_TRUE(std::isfinite(value)) << to_string(codec);
    if (codec.code == ValueCode::float16 || codec.code == ValueCode::sign) continue;
    EXPECT_GE(result[0], most * 0.74f) << to_string(codec);
    EXPECT_EQ(result[1], -result[0]);
  }
  EXPECT_EQ(decoded({.code = ValueCode::float16}, encoded({.code = ValueCode::float16}, {1e9f, -65520}).bytes, 2),
            (std::vector<float>{65504, -65504}));
}

TEST_P(Codecs, GiveZerosForZeros) {
  for (const Codec& codec : all_codecs()) {
    const Coded coded = encoded(codec, std::vector<float>(300, 0.0f), {}, {.seed = 1, .first = 0});
    EXPECT_EQ(coded.bytes, std::vector<std::byte>(coded.bytes.size())) << to_string(codec);
    EXPECT_EQ(bits_of(decoded(codec, coded.bytes, 300)), std::vector<uint32_t>(300));
    EXPECT_EQ(bits_of(coded.lost), std::vector<uint32_t>(300));
  }
}

// Blocks alone are as in the whole, whatever is cut where.
TEST_P(Codecs, AreIndependentOfHowAPieceIsCut) {
  std::mt19937_64 random(kSeed);
  for (const Codec& codec : all_codecs()) {
    const size_t count = 5 * kBlockValues + 77;
    const std::vector<float> values = make_values(Kind::gradient, count, random);
    const Coded whole = encoded(codec, values, {}, {.seed = 9, .first = 2560});
    for (const size_t cut : {size_t{1}, size_t{2}, size_t{3}}) {
      std::vector<std::byte> bytes;
      for (size_t first = 0; first < count; first += cut * kBlockValues) {
        const size_t end = std::min(count, first + cut * kBlockValues);
        const Coded slice = encoded(
            codec, {values.begin() + static_cast<ptrdiff_t>(first), values.begin() + static_cast<ptrdiff_t>(end)}, {},
            {.seed = 9, .first = 2560 + first});
        bytes.insert(bytes.end(), slice.bytes.begin(), slice.bytes.end());
      }
      EXPECT_EQ(difference(bytes, whole.bytes), "") << to_string(codec);
    }
    if (!codec.is_stochastic) continue;
    EXPECT_NE(encoded(codec, values, {}, {.seed = 10, .first = 2560}).bytes, whole.bytes) << to_string(codec);
    EXPECT_NE(encoded(codec, values, {}, {.seed = 9, .first = 0}).bytes, whole.bytes) << to_string(codec);
  }
}

TEST_P(Codecs, TouchNothingOutside) {
  std::mt19937_64 random(kSeed);
  for (const Codec& codec : all_codecs()) {
    for (const size_t count : {size_t{1}, size_t{100}, size_t{255}, size_t{257}}) {
      for (const size_t shift : {size_t{0}, size_t{1}, size_t{7}}) {
        std::vector<float> values = make_values(Kind::special, count, random), lost(count + 64, 7.0f);
        std::vector<std::byte> coded(coded_bytes(codec, count) + 128, std::byte{0xa5});
        encode({.codec = codec, .values = values.data(), .lost = lost.data() + 32, .count = count},
               coded.data() + 64 - shift);
        const auto is_marked = [](std::byte byte) { return byte == std::byte{0xa5}; };
        const auto end = static_cast<ptrdiff_t>(64 - shift + coded_bytes(codec, count));
        EXPECT_TRUE(std::all_of(coded.begin(), coded.begin() + 64 - static_cast<ptrdiff_t>(shift), is_marked));
        EXPECT_TRUE(std::all_of(coded.begin() + end, coded.end(), is_marked));
        const auto is_seven = [](float value) { return value == 7.0f; };
        EXPECT_TRUE(std::all_of(lost.begin(), lost.begin() + 32, is_seven));
        EXPECT_TRUE(std::all_of(lost.end() - 32, lost.end(), is_seven));
        std::fill(lost.begin(), lost.end(), 7.0f);
        decode(codec, coded.data() + 64 - shift, lost.data() + 32, count);
        EXPECT_TRUE(std::all_of(lost.begin(), lost.begin() + 32, is_seven));
        EXPECT_TRUE(std::all_of(lost.end() - 32, lost.end(), is_seven));
      }
    }
  }
}

// |C(x) - x|^2 <= (1 - delta) |x|^2: error feedback converges. Stochastic rounding of few bits is no contraction: it is
// unbiased instead.
TEST_P(Codecs, Contract) {
  std::mt19937_64 random(kSeed);
  for (const Codec& codec : all_codecs()) {
    for (const Kind kind : {Kind::gaussian, Kind::gradient, Kind::integers, Kind::outliers, Kind::zeros}) {
      const std::vector<float> values = make_values(kind, kBlockValues, random);
      const Coded coded = encoded(codec, values);
      double lost = 0, all = 0, sum = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<double>(values[i]);
        lost += std::pow(static_cast<double>(coded.lost[i]), 2), all += value * value, sum += std::abs(value);
      }
      if (codec.code == ValueCode::float16 && kind == Kind::outliers) continue;  // they are beyond its range
      double delta = codec.is_stochastic ? 0 : 0.5;
      if (codec.code == ValueCode::sign) delta = 0.999 * sum * sum / (256 * all);
      if (!codec.is_stochastic || codec.code == ValueCode::int8) {
        EXPECT_LE(lost, (1 - delta) * all) << codec::to_string(codec) << " " << to_string(kind);
      }
    }
  }
}

double relative_error(const Codec& codec, const std::vector<float>& values) {
  const Coded coded = encoded(codec, values, {}, {.seed = 1, .first = 0});
  const std::vector<float> result = decoded(codec, coded.bytes, values.size());
  double error = 0, all = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(result[i]) - static_cast<double>(values[i]), 2);
    all += std::pow(static_cast<double>(values[i]), 2);
  }
  return std::sqrt(error / all);
}

// int8: a uniform error of crest / (127 sqrt 12), the crest of 256 Gaussians being 2.8 to 3.4. Floats of k bits of
// fraction: about 0.23 * 2^-k. sign: 1 - 2/pi of the energy is lost.
TEST_P(Codecs, HaveTheKnownErrorsOnGaussianValues) {
  std::mt19937_64 random(kSeed);
  const std::vector<float> values = make_values(Kind::gaussian, size_t{1} << 17, random);
  const auto error = [&](std::string_view name) { return relative_error(parse_codec(name), values); };
  EXPECT_NEAR(error("bfloat16"), 0.00165, 0.0003);
  EXPECT_NEAR(error("float16"), 0.0002, 0.00003);
  EXPECT_NEAR(error("fp8"), 0.026, 0.002);
  EXPECT_NEAR(error("mxfp8"), 0.026, 0.002);
  EXPECT_NEAR(error("int8"), 0.0068, 0.0006);
  EXPECT_NEAR(error("int8:stochastic"), 0.0068 * std::sqrt(2), 0.001);
  EXPECT_NEAR(error("int4"), 0.12, 0.03);
  EXPECT_NEAR(error("mxfp4"), 0.12, 0.02);
  EXPECT_NEAR(error("sign"), std::sqrt(1 - 2 / 3.14159265), 0.005);
}

// ---- Stochastic rounding ----

// By how many standard errors the mean of many roundings is off the value, at worst.
double worst_bias(const std::vector<float>& values, const std::vector<std::vector<float>>& draws) {
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    double sum = 0, squares = 0;
    for (const auto& draw : draws) {
      const double off = static_cast<double>(draw[i]) - static_cast<double>(values[i]);
      sum += off, squares += off * off;
    }
    const auto n = static_cast<double>(draws.size());
    const double deviation = std::sqrt(std::max(squares / n - sum / n * sum / n, 0.0) / n);
    // What is always rounded alike may be off by a unit of the random numbers.
    const double least = std::abs(static_cast<double>(values[i])) * 1e-6 + 1e-7;
    worst = std::max(worst, std::abs(sum / n) / (deviation + least));
  }
  return worst;
}

constexpr size_t kDraws = 10'000;

TEST_P(Codecs, RoundStochasticallyWithoutBias) {
  std::mt19937_64 random(kSeed);
  // 64 values of one block, two groups; the maximum of the second has a fraction of 1.9.
  std::vector<float> values = make_values(Kind::gaussian, 64, random);
  values[40] = 7.6f;
  for (const Codec& codec : all_codecs()) {
    if (!codec.is_stochastic) continue;
    std::vector<std::vector<float>> draws;
    for (size_t k = 0; k < kDraws; ++k) {
      const Coded coded = encoded(codec, values, {}, {.seed = k, .first = k % 7 * 256});
      draws.push_back(decoded(codec, coded.bytes, values.size()));
    }
    // 4 sigma for one value; the worst of 64 is beyond once in 250.
    EXPECT_LT(worst_bias(values, draws), 4.5) << to_string(codec);
  }
}

// The test above finds the bias of the rule for MX formats that rounds the scale down.
TEST(StochasticRounding, WouldHaveABiasWithAScaleRoundedDown) {
  const double value = 7.6, scale = 1;  // E2M1: 2^(floor(log2 7.6) - 2)
  std::mt19937_64 random(kSeed);
  std::vector<std::vector<float>> draws;
  for (size_t k = 0; k < kDraws; ++k) {
    const double scaled = std::min(value / scale, 6.0);
    const double low = scaled >= 6 ? 6 : 4, share = (scaled - low) / 2;
    const double uniform = std::uniform_real_distribution<double>(0, 1)(random);
    draws.push_back({static_cast<float>(low + (uniform < share ? 2 : 0))});
  }
  EXPECT_GT(worst_bias({7.6f}, draws), 100);
}

TEST(StochasticRounding, HasRandomNumbersWithoutPatterns) {
  // Of each bit the mean, and of neighbours in position, block and seed how often it is equal: binomial, 5 sigma.
  constexpr size_t kValues = 1 << 15;
  constexpr double kFiveSigma = 5 * 0.5 / 181;
  for (int bit = 0; bit < 32; ++bit) {
    size_t ones = 0, like_next = 0, like_next_block = 0, like_next_seed = 0;
    for (size_t i = 0; i < kValues; ++i) {
      const auto at = [&](uint64_t seed, size_t index) {
        return reference_random({.seed = seed, .first = 0}, index) >> bit & 1;
      };
      const uint32_t here = at(4, i);
      ones += here, like_next += here == at(4, i + 1);
      like_next_block += here == at(4, i + 256), like_next_seed += here == at(5, i);
    }
    for (const size_t count : {ones, like_next, like_next_block, like_next_seed}) {
      EXPECT_NEAR(static_cast<double>(count) / kValues, 0.5, kFiveSigma) << "bit " << bit;
    }
  }
}

// ---- Error feedback ----

TEST(ErrorFeedback, KeepsTheResidualBounded) {
  std::mt19937_64 random(kSeed);
  for (const Codec& codec : all_codecs()) {
    if (codec.is_stochastic) continue;
    std::vector<float> gradient(kBlockValues, 0.0f), residual(kBlockValues, 0.0f), step(kBlockValues);
    std::vector<std::byte> coded(coded_bytes(codec, kBlockValues));
    double most = 0;
    for (int k = 0; k < 1000; ++k) {
      // A walk that is pulled back, so that its steps are of like size.
      step = make_values(Kind::gaussian, kBlockValues, random);
      for (size_t i = 0; i < kBlockValues; ++i) gradient[i] = 0.9f * gradient[i] + step[i];
      encode({.codec = codec,
              .values = gradient.data(),
              .residual = residual.data(),
              .lost = residual.data(),
              .count = kBlockValues},
             coded.data());
      double norm = 0, size = 0;
      for (const float value : residual) norm += static_cast<double>(value) * static_cast<double>(value);
      for (const float value : gradient) size += static_cast<double>(value) * static_cast<double>(value);
      most = std::max(most, std::sqrt(norm / size));
    }
    EXPECT_LT(most, codec.code == ValueCode::sign ? 6 : 1) << to_string(codec);
  }
}

}  // namespace
}  // namespace banyan::codec
