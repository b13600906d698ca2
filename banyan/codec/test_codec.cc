#include "banyan/codec/test_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "banyan/element/test_kernels.h"

namespace banyan::codec {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr float kOneNaN = std::bit_cast<float>(0x7fc00000u);

size_t group_of(ValueCode code) {
  const bool is_shared_by_32 = code == ValueCode::mxfp8 || code == ValueCode::int4 || code == ValueCode::mxfp4;
  return is_shared_by_32 ? 32 : kBlockValues;
}
bool is_half(ValueCode code) { return code == ValueCode::bfloat16 || code == ValueCode::float16; }
bool has_power_scale(ValueCode code) { return group_of(code) == 32; }
bool is_small_float(ValueCode code) {
  return code == ValueCode::fp8 || code == ValueCode::mxfp8 || code == ValueCode::mxfp4;
}
int greatest_code(ValueCode code) {
  switch (code) {
    case ValueCode::int8:
      return 127;
    case ValueCode::int4:
      return 7;
    case ValueCode::mxfp4:
      return 6;
    default:
      return 448;
  }
}

double small_float(uint32_t code, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(code >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(code) & ((1 << fraction_bits) - 1);
  const double sign = (code >> (exponent_bits + fraction_bits) & 1) != 0 ? -1 : 1;
  if (exponent_bits == 4 && (code & 0x7f) == 0x7f) return kNaN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

// A quotient as a float, from double: a division rounds right when rounded twice with more than twice the bits.
float rounded(double value) { return static_cast<float>(value); }

struct Scale {
  float scale = 0, inverse = 0;
  bool is_nan = false;
  uint8_t byte = 0;
};

Scale scale_of(ValueCode code, const std::vector<float>& group) {
  double most = 0;
  for (const float value : group) {
    if (!std::isfinite(value)) return {.scale = kOneNaN, .is_nan = true, .byte = 0xff};
    most = std::max(most, std::abs(static_cast<double>(value)));
  }
  const double greatest = greatest_code(code);
  if (has_power_scale(code)) {
    // The least power of two for which nothing saturates, if it is one that E8M0 has and that can be decoded.
    int exponent = -127;
    while (greatest * std::ldexp(1, exponent) < most) ++exponent;
    while (greatest * std::ldexp(1, exponent) > std::numeric_limits<float>::max()) --exponent;
    return {.scale = rounded(std::ldexp(1, exponent)),
            .inverse = rounded(std::ldexp(1, -exponent)),
            .byte = static_cast<uint8_t>(exponent + 127)};
  }
  float scale = std::max(rounded(most / greatest), std::numeric_limits<float>::min());
  while (!std::isfinite(rounded(static_cast<double>(scale) * greatest))) scale = std::nextafter(scale, 0.0f);
  return {.scale = most == 0 ? 0 : scale, .inverse = rounded(1 / static_cast<double>(scale))};
}

uint32_t reference_code(ValueCode code, float scaled, const uint32_t* random) {
  const double most = greatest_code(code), value = std::clamp(static_cast<double>(scaled), -most, most);
  if (!is_small_float(code)) {
    if (random == nullptr) return static_cast<uint32_t>(static_cast<int>(std::nearbyint(value)));
    const double units = std::trunc(value * 0x1p24) + static_cast<double>(*random >> 8);
    return static_cast<uint32_t>(static_cast<int>(std::floor(units / 0x1p24)));
  }
  const bool is_fp4 = code == ValueCode::mxfp4;
  const uint32_t codes = is_fp4 ? 7 : 126;
  const auto number = [&](uint32_t c) { return is_fp4 ? small_float(c, 2, 1) : small_float(c, 4, 3); };
  const double magnitude = std::abs(value);
  uint32_t low = 0;
  while (low < codes && number(low + 1) <= magnitude) ++low;
  if (low < codes) {
    const double share = (magnitude - number(low)) / (number(low + 1) - number(low));
    if (random == nullptr) {
      if (share > 0.5 || (share == 0.5 && low % 2 == 1)) ++low;
    } else {
      const int bits = is_fp4 ? 22 : 20;
      if (std::trunc(std::ldexp(share, bits)) + (*random >> (32 - bits)) >= std::ldexp(1, bits)) ++low;
    }
  }
  return low | (std::signbit(scaled) ? (is_fp4 ? 8u : 128u) : 0u);
}

float reference_mean(const std::vector<float>& block, size_t count) {
  const auto sum = [&](float factor) {
    float lanes[32] = {};
    for (size_t i = 0; i < block.size(); ++i) lanes[i % 32] += std::abs(block[i]) * factor;
    for (size_t half = 16; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes[0] / static_cast<float>(count);
  };
  if (std::any_of(block.begin(), block.end(), [](float v) { return !std::isfinite(v); })) return kOneNaN;
  const float mean = sum(1);
  return std::isfinite(mean) ? mean : std::min(sum(0x1p-10f) * 0x1p10f, std::numeric_limits<float>::max());
}

// One block of which the last values may be missing.
class BlockReference {
 public:
  BlockReference(const Codec& codec, const float* values, const float* residual, size_t count,
                 const Randomness& randomness, size_t first)
      : codec_(codec), count_(count), randomness_(randomness), first_(first), sums_(kBlockValues), kept_(kBlockValues) {
    for (size_t i = 0; i < count; ++i) {
      kept_[i] = residual == nullptr ? 0 : residual[i];
      sums_[i] = residual == nullptr ? values[i] : values[i] + residual[i];
    }
  }

  void append_to(Coded& coded) const {
    std::vector<std::byte> bytes;
    if (is_half(codec_.code)) {
      bytes = halves();
    } else if (codec_.code == ValueCode::sign) {
      bytes = signs();
    } else {
      bytes = scaled();
    }
    const std::vector<float> values = reference_decode(codec_, bytes, count_);
    for (size_t i = 0; i < count_; ++i) {
      coded.lost.push_back(std::isnan(values[i]) ? kept_[i] : sums_[i] - values[i]);
    }
    coded.bytes.insert(coded.bytes.end(), bytes.begin(), bytes.end());
  }

 private:
  std::vector<std::byte> halves() const {
    std::vector<std::byte> bytes(2 * kBlockValues);
    const bool is_brain = codec_.code == ValueCode::bfloat16;
    for (size_t i = 0; i < kBlockValues; ++i) {
      const double most = is_brain ? std::ldexp(255, 120) : 65504;
      double value = static_cast<double>(sums_[i]);
      value = std::isfinite(value) ? std::clamp(value, -most, most) : kNaN;
      if (value == 0) value = std::copysign(0, sums_[i]);
      const auto half = static_cast<uint16_t>(element::encode(is_brain ? element::kBrain : element::kHalf, value));
      std::memcpy(&bytes[2 * i], &half, 2);
    }
    return bytes;
  }
  std::vector<std::byte> signs() const {
    std::vector<std::byte> bytes(36);
    const float mean = reference_mean(sums_, count_);
    std::memcpy(bytes.data(), &mean, 4);
    if (std::isnan(mean)) return with_signs(bytes, true);
    return with_signs(bytes, false);
  }
  std::vector<std::byte> with_signs(std::vector<std::byte> bytes, bool are_zeros) const {
    for (size_t i = 0; i < kBlockValues; ++i) {
      // Of a block that is NaN, all values count as zeros.
      if (!are_zeros && std::signbit(sums_[i])) bytes[4 + i / 8] |= static_cast<std::byte>(1 << i % 8);
    }
    return bytes;
  }
  std::vector<std::byte> scaled() const {
    const size_t group = group_of(codec_.code);
    const bool are_nibbles = codec_.code == ValueCode::int4 || codec_.code == ValueCode::mxfp4;
    std::vector<std::byte> bytes(traits_of(codec_).block_bytes);
    const size_t header = has_power_scale(codec_.code) ? 8 : 4;
    for (size_t first = 0; first < kBlockValues; first += group) {
      const Scale scale =
          scale_of(codec_.code, std::vector<float>(sums_.begin() + static_cast<ptrdiff_t>(first),
                                                   sums_.begin() + static_cast<ptrdiff_t>(first + group)));
      if (has_power_scale(codec_.code)) {
        bytes[first / group] = static_cast<std::byte>(scale.byte);
      } else {
        std::memcpy(bytes.data(), &scale.scale, 4);
      }
      for (size_t i = first; i < first + group && !scale.is_nan; ++i) {
        const float value = rounded(static_cast<double>(sums_[i]) * static_cast<double>(scale.inverse));
        const uint32_t random = reference_random(randomness_, first_ + i);
        const uint32_t code = reference_code(codec_.code, value, codec_.is_stochastic ? &random : nullptr);
        if (are_nibbles) {
          bytes[header + i / 2] |= static_cast<std::byte>((code & 15) << (i % 2 * 4));
        } else {
          bytes[header + i] = static_cast<std::byte>(code);
        }
      }
    }
    return bytes;
  }

  Codec codec_;
  size_t count_;
  Randomness randomness_;
  size_t first_;
  std::vector<float> sums_, kept_;
};

}  // namespace

std::vector<Codec> all_codecs() {
  std::vector<Codec> codecs;
  for (size_t i = 0; i < kValueCodes; ++i) {
    const auto code = static_cast<ValueCode>(i);
    codecs.push_back({.code = code, .is_stochastic = false});
    if (!is_half(code) && code != ValueCode::sign) codecs.push_back({.code = code, .is_stochastic = true});
  }
  return codecs;
}

std::vector<double> table_of(ValueCode code) {
  std::vector<double> table;
  const uint32_t codes = is_half(code) ? 65536 : code == ValueCode::int4 || code == ValueCode::mxfp4 ? 16 : 256;
  for (uint32_t c = 0; c < codes; ++c) {
    if (is_half(code)) {
      table.push_back(element::decode(code == ValueCode::float16 ? element::kHalf : element::kBrain, c));
    } else if (code == ValueCode::int8 || code == ValueCode::int4) {
      table.push_back(c < codes / 2 ? static_cast<double>(c) : static_cast<double>(c) - codes);
    } else {
      table.push_back(code == ValueCode::mxfp4 ? small_float(c, 2, 1) : small_float(c, 4, 3));
    }
  }
  return table;
}

uint32_t reference_random(const Randomness& randomness, size_t index) {
  const auto mix = [](uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  };
  const uint64_t position = randomness.first + index;
  const uint64_t keys = mix(mix(randomness.seed) + position / 256);
  auto x = static_cast<uint32_t>(keys + position % 256);
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x += static_cast<uint32_t>(keys >> 32);
  x *= 0x846ca68b;
  return x ^ (x >> 16);
}

Coded reference_encode(const Codec& codec, const std::vector<float>& values, const std::vector<float>& residual,
                       const Randomness& randomness) {
  Coded coded;
  for (size_t first = 0; first < values.size(); first += kBlockValues) {
    const size_t count = std::min(kBlockValues, values.size() - first);
    BlockReference(codec, values.data() + first, residual.empty() ? nullptr : residual.data() + first, count,
                   randomness, first)
        .append_to(coded);
  }
  return coded;
}

std::vector<float> reference_decode(const Codec& codec, const std::vector<std::byte>& coded, size_t count) {
  static const std::vector<std::vector<double>> kTables = [] {
    std::vector<std::vector<double>> tables;
    for (size_t i = 0; i < kValueCodes; ++i) tables.push_back(table_of(static_cast<ValueCode>(i)));
    return tables;
  }();
  const std::vector<double>& table = kTables[static_cast<size_t>(codec.code)];
  const size_t block_bytes = traits_of(codec).block_bytes;
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    const std::byte* const block = coded.data() + i / kBlockValues * block_bytes;
    const size_t at = i % kBlockValues;
    double value = 0;
    if (is_half(codec.code)) {
      uint16_t half = 0;
      std::memcpy(&half, block + 2 * at, 2);
      value = table[half];
    } else {
      float scale = 0;
      std::memcpy(&scale, block, 4);
      const std::byte* codes = block + 4;
      if (has_power_scale(codec.code)) {
        const auto byte = std::to_integer<int>(block[at / 32]);
        scale = byte == 255 ? kOneNaN : rounded(std::ldexp(1, byte - 127));
        codes = block + 8;
      }
      double number = 0;
      if (codec.code == ValueCode::sign) {
        number = (codes[at / 8] >> (at % 8) & std::byte{1}) != std::byte{0} ? -1 : 1;
      } else if (table.size() == 16) {
        number = table[std::to_integer<size_t>(codes[at / 2] >> (at % 2 * 4) & std::byte{15})];
      } else {
        number = table[std::to_integer<size_t>(codes[at])];
      }
      value = static_cast<double>(scale) * number;
    }
    const float decoded = rounded(value);
    values.push_back(std::isnan(decoded) ? kOneNaN : decoded);
  }
  return values;
}

std::string to_string(Kind kind) {
  static constexpr const char* kNames[] = {"gaussian", "gradient", "integers", "outliers", "wide",
                                           "tiny",     "huge",     "special",  "zeros",    "bits"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<float> make_values(Kind kind, size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  constexpr float kMost = std::numeric_limits<float>::max();
  static constexpr float kSpecial[] = {0.0f,
                                       -0.0f,
                                       std::numeric_limits<float>::denorm_min(),
                                       -std::numeric_limits<float>::min(),
                                       kMost,
                                       -kMost,
                                       std::numeric_limits<float>::infinity(),
                                       -std::numeric_limits<float>::infinity(),
                                       std::numeric_limits<float>::quiet_NaN(),
                                       65504,
                                       65520,
                                       -1e-7f,
                                       448,
                                       127,
                                       6};
  const auto whole = [&](uint64_t most) {
    return static_cast<float>(random() % (2 * most + 1)) - static_cast<float>(most);
  };
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const float g = normal(random);
    const float scale = std::exp2(static_cast<float>(i / 37 % 11) - 12);  // layers differ in size
    switch (kind) {
      case Kind::gaussian:
        values[i] = g;
        break;
      case Kind::gradient:
        values[i] = random() % 5 == 0 ? 0 : g * scale * std::abs(g);
        break;
      case Kind::integers:
        values[i] = whole(127);
        break;
      case Kind::outliers:
        values[i] = i % 97 == 5 ? g * 1e6f : g;
        break;
      case Kind::wide:
        values[i] = std::ldexp(g, static_cast<int>(random() % 200) - 100);
        break;
      case Kind::tiny:
        values[i] = std::ldexp(g, -122 - static_cast<int>(i / 64 % 30));
        break;
      case Kind::huge:
        values[i] =
            random() % 4 == 0 ? std::copysign(kMost, g) : std::ldexp(std::tanh(g), 128 - static_cast<int>(i / 200 % 3));
        break;
      case Kind::special:
        // Some blocks and groups have nothing special in them.
        values[i] = i / 32 % 3 == 1 && random() % 8 == 0 ? kSpecial[random() % std::size(kSpecial)] : g;
        break;
      case Kind::bits:
        values[i] = std::bit_cast<float>(static_cast<uint32_t>(random()) & (i / 512 % 2 == 0 ? 0xbfffffffu : ~0u));
        break;
      case Kind::zeros:
        values[i] = i / 96 % 2 == 0 ? (random() % 2 == 0 ? 0.0f : -0.0f) : (i % 7 == 0 ? g : 0.0f);
        break;
    }
  }
  return values;
}

Coded encoded(const Codec& codec, const std::vector<float>& values, const std::vector<float>& residual,
              const Randomness& randomness) {
  Coded coded = {std::vector<std::byte>(coded_bytes(codec, values.size())), std::vector<float>(values.size())};
  encode({.codec = codec,
          .values = values.data(),
          .residual = residual.empty() ? nullptr : residual.data(),
          .lost = coded.lost.data(),
          .count = values.size(),
          .randomness = randomness},
         coded.bytes.data());
  return coded;
}

std::vector<float> decoded(const Codec& codec, const std::vector<std::byte>& coded, size_t count) {
  std::vector<float> values(count);
  decode(codec, coded.data(), values.data(), count);
  return values;
}

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

}  // namespace banyan::codec
