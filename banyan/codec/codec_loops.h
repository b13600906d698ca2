// Inside of banyan/codec: the loops of one machine, made of codec_lanes.h, and the table of them.
//
// A *format* is how one block is laid out. A *source* gives the values of a block and takes what is lost:
//
//   struct Format {
//     static constexpr size_t kBytes, kGroup;  // of a block; values that share a scale
//     static constexpr int32_t kMost;          // the bits of the greatest value that it can code
//     static bool encode(const Source&, std::byte* coded, size_t count, const Draws&);
//         // false, and nothing is written, where the magnitude of a value exceeds kMost
//     static void make_nan(std::byte* coded, size_t group);
//     static void decode(const std::byte* coded, const Put& put);  // put(i, floats) for each vector
//   };
#pragma once

#include "banyan/codec/codec_kernels.h"
#include "banyan/codec/codec_lanes.h"
#include "banyan/codec/low_rank_loops.h"

namespace banyan::codec::internal {
namespace {

template <typename Machine, bool kAdds, bool kKeeps>
struct Source {
  using Floats = typename V<Machine>::Floats;
  static constexpr bool kKeepsLost = kKeeps;
  static constexpr size_t kAhead = 4 * kBlockValues;

  [[gnu::always_inline]] Floats at(size_t i) const {
    const Floats value = load<Floats>(values + i);
    if constexpr (kAdds) return value + load<Floats>(residual + i);
    return value;
  }
  // Asks for a block some blocks ahead: the arithmetic of one takes so long that the processor sees no further itself.
  [[gnu::always_inline]] void prefetch() const {
    for (size_t i = 0; i < kBlockValues; i += 16) {
      __builtin_prefetch(values + kAhead + i);
      if constexpr (kAdds) __builtin_prefetch(residual + kAhead + i, kKeeps ? 1 : 0);
    }
  }
  [[gnu::always_inline]] void lose(size_t i, Floats value, Floats decoded) const {
    if constexpr (kKeeps) store(lost + i, value - decoded);
  }
  // As lose(); but where `is_kept`, `lost` becomes the residual as it was.
  template <typename Mask>
  [[gnu::always_inline]] void lose_but(size_t i, Floats value, Floats decoded, Mask is_kept) const {
    if constexpr (!kKeeps) return;
    Floats kept = {};
    if constexpr (kAdds) kept = load<Floats>(residual + i);
    store(lost + i, is_kept ? kept : value - decoded);
  }

  const float* values;
  const float* residual;
  float* lost;
};

// ---- Scales ----

struct Scales {
  float scale[8], inverse[8];
};

// One float32 of the whole block: the maximum divided by the greatest code. `kMostScale`: times the greatest code it is
// still finite.
template <typename Machine, int kMostCode>
struct FloatScale {
  static constexpr size_t kHeader = 4, kGroup = kBlockValues;
  static constexpr float kMostScale = kMostCode == 127 ? 0x1.020406p121f : kLargest / 448;

  template <int32_t kMost, typename S>
  [[gnu::always_inline]] static bool find(const S& source, std::byte* coded, Scales& scales) {
    using L = V<Machine>;
    typename L::Words first = {}, second = {};
    for (size_t i = 0; i < kBlockValues; i += 2 * L::kFloats) {
      first = L::most(first, L::magnitude(source.at(i)));
      second = L::most(second, L::magnitude(source.at(i + L::kFloats)));
    }
    const int32_t most = fold_four<Greatest>(fold_to_four<Greatest>(L::most(first, second)));
    if (most > kLargestFinite) [[unlikely]]
      return false;
    float scale = as<float>(most) / kMostCode;
    scale = scale < kLeastScale ? kLeastScale : scale;
    scale = scale > kMostScale ? kMostScale : scale;
    scales.inverse[0] = 1 / scale;
    scales.scale[0] = most == 0 ? 0 : scale;
    store(coded, scales.scale[0]);
    return true;
  }
  static void make_nan(std::byte* coded, size_t) { store(coded, kQuietNaN); }

  static void read(const std::byte* coded, float (&scales)[8]) { scales[0] = load<float>(coded); }
};

// A power of two for each 32 values, as E8M0: the exponent of a float. The least for which no value exceeds the
// greatest code, kMostEighths / 8 * 2^kExponent.
template <typename Machine, int kExponent, int kMostEighths>
struct PowerScales {
  static constexpr size_t kHeader = 8, kGroup = 32;
  static constexpr int32_t kCarries = 0x7fffff - (kMostEighths - 8) * 0x100000;  // into the exponent, if it exceeds
  using Four = FourWords;

  template <int32_t kMost, typename S>
  [[gnu::always_inline]] static bool find(const S& source, std::byte* coded, Scales& scales) {
    Four most[8];
    for (size_t group = 0; group < 8; ++group) most[group] = fold_to_four<Greatest>(greatest(source, group * kGroup));
    const Four low = transposed(most), high = transposed(most + 4);
    const Four all = Greatest::of(low, high);
    if (fold_four<Greatest>(all) > kMost) [[unlikely]]
      return false;
    put(low, coded, scales.scale, scales.inverse);
    put(high, coded + 4, scales.scale + 4, scales.inverse + 4);
    return true;
  }
  static void make_nan(std::byte* coded, size_t group) { coded[group] = std::byte{0xff}; }

  static void read(const std::byte* coded, float (&scales)[8]) {
    for (size_t half = 0; half < 2; ++half) {
      const Four bytes = widen_four(coded + 4 * half);
      const Four nan = Four{} + static_cast<int32_t>(kQuietNaN);
      store(scales + 4 * half, bytes == 255 ? nan : scales_of(bytes));
    }
  }

 private:
  template <typename S>
  [[gnu::always_inline]] static typename V<Machine>::Words greatest(const S& source, size_t at) {
    using L = V<Machine>;
    auto most = L::magnitude(source.at(at));
    for (size_t i = L::kFloats; i < kGroup; i += L::kFloats) most = L::most(most, L::magnitude(source.at(at + i)));
    return most;
  }
  // The greatest lane of each of four.
  [[gnu::always_inline]] static Four transposed(const Four* of) {
    const Four ab = Greatest::of(Four(__builtin_shufflevector(of[0], of[1], 0, 4, 1, 5)),
                                 Four(__builtin_shufflevector(of[0], of[1], 2, 6, 3, 7)));
    const Four cd = Greatest::of(Four(__builtin_shufflevector(of[2], of[3], 0, 4, 1, 5)),
                                 Four(__builtin_shufflevector(of[2], of[3], 2, 6, 3, 7)));
    return Greatest::of(Four(__builtin_shufflevector(ab, cd, 0, 1, 4, 5)),
                        Four(__builtin_shufflevector(ab, cd, 2, 3, 6, 7)));
  }
  [[gnu::always_inline]] static Four scales_of(Four bytes) {
    return bytes == 0 ? Four{} + 0x00400000 : bytes << 23;  // 2^-127 is subnormal
  }
  [[gnu::always_inline]] static void put(Four most, std::byte* coded, float* scale, float* inverse) {
    Four bytes = ((most + kCarries) >> 23) - kExponent;
    bytes = bytes > 0 ? bytes : Four{};
    narrow_four(coded, bytes);
    store(scale, scales_of(bytes));
    store(inverse, (254 - bytes) << 23);
  }
};

// ---- Formats ----

// A byte for each code.
template <typename Machine, typename Code>
struct ByteCodes {
  using L = V<Machine>;
  static constexpr size_t kBytes = kBlockValues, kVectors = 4;  // that become one

  [[gnu::always_inline]] static typename L::Bytes packed(const typename L::Words (&words)[kVectors]) {
    return Machine::pack(words[0], words[1], words[2], words[3]);
  }
  [[gnu::always_inline]] static typename L::Words read(const std::byte* codes, size_t at) {
    return Machine::widen_bytes(codes + at);
  }
};

// Four bits for each.
template <typename Machine, typename Code>
struct NibbleCodes {
  using L = V<Machine>;
  using Halves = Vector<uint16_t, L::kWidth>;
  static constexpr size_t kBytes = kBlockValues / 2, kVectors = 8;

  [[gnu::always_inline]] static typename L::Bytes packed(const typename L::Words (&words)[kVectors]) {
    return Machine::pack_halves(joined(Machine::pack(words[0], words[1], words[2], words[3])),
                                joined(Machine::pack(words[4], words[5], words[6], words[7])));
  }
  [[gnu::always_inline]] static typename L::Words read(const std::byte* codes, size_t at) {
    const typename L::Pairs pairs = Machine::widen_pairs(codes + at / 2);
    return Code::of_nibble(as<typename L::Words>((pairs | pairs << 28) & uint64_t{0x0000000f0000000f}));
  }

 private:
  // Two bytes as one, in a half: the first one low.
  [[gnu::always_inline]] static typename L::Bytes joined(typename L::Bytes bytes) {
    const Halves pairs = as<Halves>(bytes & uint8_t{0x0f});
    return as<typename L::Bytes>((pairs | pairs >> 4) & uint16_t{0xff});
  }
};

template <typename Machine, typename Scale, typename Code, typename Codes>
struct Scaled {
  using L = V<Machine>;
  using Floats = typename L::Floats;
  static constexpr size_t kBytes = Scale::kHeader + Codes::kBytes, kGroup = Scale::kGroup;
  static constexpr int32_t kMost = Code::kMost;

  template <typename S, typename D>
  [[gnu::always_inline]] static bool encode(const S& source, std::byte* coded, size_t, const D& draws) {
    Scales scales;
    if (!Scale::template find<Code::kMost>(source, coded, scales)) [[unlikely]]
      return false;
    coded += Scale::kHeader;
    constexpr size_t kValues = Codes::kVectors * L::kFloats, kValuesPerByte = kBlockValues / Codes::kBytes;
    for (size_t at = 0; at < kBlockValues; at += kValues) {
      typename L::Words words[Codes::kVectors];
      for (size_t k = 0; k < Codes::kVectors; ++k) {
        const size_t i = at + k * L::kFloats;
        const Floats value = source.at(i);
        const Rounded<Machine> rounded = Code::encode(value * scales.inverse[i / kGroup], draws, i);
        words[k] = rounded.code;
        source.lose(i, value, rounded.value * scales.scale[i / kGroup]);
      }
      store(coded + at / kValuesPerByte, Codes::packed(words));
    }
    return true;
  }
  static void make_nan(std::byte* coded, size_t group) { Scale::make_nan(coded, group); }

  template <typename Put>
  [[gnu::always_inline]] static void decode(const std::byte* coded, const Put& put) {
    float scales[8];
    Scale::read(coded, scales);
    coded += Scale::kHeader;
    for (size_t i = 0; i < kBlockValues; i += L::kFloats)
      put(i, Code::decode(Codes::read(coded, i)) * scales[i / kGroup]);
  }
};

// Values as halves. No scale is shared, so every block can be encoded.
template <typename Machine, typename Half>
struct Halves {
  using L = V<Machine>;
  using Floats = typename L::Floats;
  static constexpr size_t kBytes = 2 * kBlockValues, kGroup = 1;
  static constexpr int32_t kMost = kLargestFinite;

  template <typename S, typename D>
  [[gnu::always_inline]] static bool encode(const S& source, std::byte* coded, size_t, const D&) {
    for (size_t i = 0; i < kBlockValues; i += 2 * L::kFloats) {
      const FloatPair<L::kWidth> pair = {source.at(i), source.at(i + L::kFloats)};
      const FloatPair<L::kWidth> finite = {finite_or_nan(pair.first), finite_or_nan(pair.second)};
      const typename L::Bytes halves = Half::narrow(finite);
      store(coded + 2 * i, halves);
      if constexpr (S::kKeepsLost) {
        const FloatPair<L::kWidth> decoded = Half::widen(halves);
        source.lose_but(i, pair.first, decoded.first, finite.first != finite.first);
        source.lose_but(i + L::kFloats, pair.second, decoded.second, finite.second != finite.second);
      }
    }
    return true;
  }
  static void make_nan(std::byte*, size_t) {}

  template <typename Put>
  [[gnu::always_inline]] static void decode(const std::byte* coded, const Put& put) {
    for (size_t i = 0; i < kBlockValues; i += 2 * L::kFloats) {
      const FloatPair<L::kWidth> pair = Half::widen(load<typename L::Bytes>(coded + 2 * i));
      put(i, pair.first);
      put(i + L::kFloats, pair.second);
    }
  }

 private:
  // Within the greatest half; NaN where it is not finite.
  [[gnu::always_inline]] static Floats finite_or_nan(Floats value) {
    const typename L::Words bits = as<typename L::Words>(value), magnitude = L::magnitude(value);
    const typename L::Words most = typename L::Words{} + Half::kMost, nan = typename L::Words{} + int32_t{kQuietNaN};
    const typename L::Words within = (magnitude < Half::kMost ? magnitude : most) | (bits & kSign);
    return as<Floats>(magnitude > kLargestFinite ? nan : within);
  }
};

template <typename Machine>
struct Half {
  using L = V<Machine>;
  static constexpr int32_t kMost = 0x477fe000;  // 65504
  [[gnu::always_inline]] static typename L::Bytes narrow(const FloatPair<L::kWidth>& pair) {
    return Machine::narrow_half(pair);
  }
  [[gnu::always_inline]] static FloatPair<L::kWidth> widen(typename L::Bytes halves) {
    return Machine::widen_half(halves);
  }
};

template <typename Machine>
struct BrainHalf {
  using L = V<Machine>;
  using Words = typename L::Words;
  static constexpr int32_t kMost = 0x7f7f0000;
  [[gnu::always_inline]] static typename L::Bytes narrow(const FloatPair<L::kWidth>& pair) {
    return Machine::pack(rounded(pair.first), rounded(pair.second));
  }
  [[gnu::always_inline]] static FloatPair<L::kWidth> widen(typename L::Bytes halves) {
    return Machine::widen_brain_half(halves);
  }

 private:
  // A quiet NaN stays one. Signed halves, as Machine::pack wants them.
  [[gnu::always_inline]] static Words rounded(typename L::Floats value) {
    const Words bits = as<Words>(value);
    return as<Words>(as<typename L::Unsigned>(bits) + 0x7fffu + (as<typename L::Unsigned>(bits) >> 16 & 1u)) >> 16;
  }
};

// The sign of each value, and the mean of the magnitudes: lanes 0..31 sum up each 32nd value, then their halves are
// added, and theirs. So every machine adds in the same order.
template <typename Machine>
struct Signs {
  using L = V<Machine>;
  using Floats = typename L::Floats;
  using Words = typename L::Words;
  static constexpr size_t kHeader = 4, kBytes = kHeader + kBlockValues / 8, kGroup = kBlockValues;
  static constexpr int32_t kMost = kLargestFinite;

  template <typename S, typename D>
  [[gnu::always_inline]] static bool encode(const S& source, std::byte* coded, size_t count, const D&) {
    float mean = sum(source, 1) / static_cast<float>(count);
    if (as<int32_t>(mean) > kLargestFinite) [[unlikely]] {
      if (!is_finite(source)) return false;
      mean = sum(source, 0x1p-10f) / static_cast<float>(count) * 0x1p10f;
      mean = mean > kLargest ? kLargest : mean;
    }
    store(coded, mean);
    coded += kHeader;
    constexpr size_t kVectors = 32 / L::kFloats;  // whose signs are one word
    for (size_t at = 0; at < kBlockValues; at += 32) {
      uint32_t word = 0;
      for (size_t k = 0; k < kVectors; ++k) {
        const size_t i = at + k * L::kFloats;
        const Floats value = source.at(i);
        word |= Machine::signs(value) << (k * L::kFloats);
        if constexpr (S::kKeepsLost) {
          source.lose(i, value, as<Floats>((as<Words>(value) & kSign) | as<int32_t>(mean)));
        }
      }
      store(coded + at / 8, word);
    }
    return true;
  }
  static void make_nan(std::byte* coded, size_t) { store(coded, kQuietNaN); }

  template <typename Put>
  [[gnu::always_inline]] static void decode(const std::byte* coded, const Put& put) {
    const int32_t mean = load<int32_t>(coded);
    Words bit_of = {};
    for (size_t i = 0; i < L::kFloats; ++i) bit_of[i] = 1 << i;
    for (size_t at = 0; at < kBlockValues; at += 32) {
      const uint32_t word = load<uint32_t>(coded + kHeader + at / 8);
      for (size_t k = 0; k < 32; k += L::kFloats) {
        const Words bits = (Words{} + static_cast<int32_t>(word >> k)) & bit_of;
        put(at + k, as<Floats>(bits == 0 ? Words{} + mean : Words{} + (mean ^ kSign)));
      }
    }
  }

 private:
  template <typename S>
  [[gnu::always_inline]] static float sum(const S& source, float factor) {
    constexpr size_t kVectors = 32 / L::kFloats;
    Floats sums[kVectors] = {};
    for (size_t at = 0; at < kBlockValues; at += 32) {
      for (size_t k = 0; k < kVectors; ++k) {
        sums[k] += as<Floats>(L::magnitude(source.at(at + k * L::kFloats))) * factor;
      }
    }
    for (size_t half = kVectors / 2; half > 0; half /= 2) {
      for (size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
    }
    return fold_four<Sum>(fold_to_four<Sum>(sums[0]));
  }
  template <typename S>
  static bool is_finite(const S& source) {
    Words most = {};
    for (size_t i = 0; i < kBlockValues; i += L::kFloats) most = L::most(most, L::magnitude(source.at(i)));
    return fold_four<Greatest>(fold_to_four<Greatest>(most)) <= kLargestFinite;
  }
};

// ---- Arrays ----

template <typename Machine, typename Format, bool kAdds>
[[gnu::always_inline]] inline void decode_block(const std::byte* coded, float* values, float factor) {
  using Floats = typename V<Machine>::Floats;
  Format::decode(
      coded, [&](size_t i, Floats decoded) __attribute__((always_inline)) {
        const Floats value = decoded * factor;
        if constexpr (kAdds) {
          store(values + i, with_one_nan(load<Floats>(values + i) + value));
        } else {
          store(values + i, with_one_nan(value));
        }
      });
}

// A block with values that are not finite, whose groups are coded as zeros first, or that saturate.
template <typename Machine, typename Format, typename S, typename D>
[[gnu::noinline]] void encode_special(const S& source, std::byte* coded, size_t count, const D& draws) {
  float sums[kBlockValues], values[kBlockValues], decoded[kBlockValues];
  bool is_finite[kBlockValues / Format::kGroup];
  for (size_t i = 0; i < kBlockValues; ++i) {
    sums[i] = source.residual == nullptr ? source.values[i] : source.values[i] + source.residual[i];
  }
  for (size_t first = 0; first < kBlockValues; first += Format::kGroup) {
    bool& all = is_finite[first / Format::kGroup];
    all = true;
    for (size_t i = first; i < first + Format::kGroup; ++i)
      all &= (as<int32_t>(sums[i]) & kMagnitude) <= kLargestFinite;
    for (size_t i = first; i < first + Format::kGroup; ++i) {
      const float most = as<float>(Format::kMost), value = all ? sums[i] : 0;
      values[i] = value > most ? most : value < -most ? -most : value;
    }
  }
  Format::encode(Source<Machine, false, false>{values, nullptr, nullptr}, coded, count, draws);
  for (size_t group = 0; group < kBlockValues / Format::kGroup; ++group) {
    if (!is_finite[group]) Format::make_nan(coded, group);
  }
  if constexpr (!S::kKeepsLost) return;
  decode_block<Machine, Format, false>(coded, decoded, 1);
  for (size_t i = 0; i < kBlockValues; ++i) {
    const float kept = source.residual == nullptr ? 0 : source.residual[i];
    source.lost[i] = is_finite[i / Format::kGroup] ? sums[i] - decoded[i] : kept;
  }
}

template <typename Machine, typename Format, typename S, typename D>
[[gnu::always_inline]] inline void encode_block(const S& source, std::byte* coded, size_t count, const D& draws) {
  if (!Format::encode(source, coded, count, draws)) [[unlikely]] {
    encode_special<Machine, Format>(source, coded, count, draws);
  }
}

// The last block, of fewer values.
template <typename Machine, typename Format, typename S, typename D>
[[gnu::noinline]] void encode_part(const S& source, std::byte* coded, size_t count, const D& draws) {
  float values[kBlockValues] = {}, residual[kBlockValues] = {};
  __builtin_memcpy(values, source.values, count * sizeof(float));
  if (source.residual != nullptr) __builtin_memcpy(residual, source.residual, count * sizeof(float));
  float lost[kBlockValues];
  S whole = source;
  whole.values = values;
  if (source.residual != nullptr) whole.residual = residual;
  whole.lost = lost;
  encode_block<Machine, Format>(whole, coded, count, draws);
  if constexpr (S::kKeepsLost) __builtin_memcpy(source.lost, lost, count * sizeof(float));
}

template <typename Machine, typename Format, bool kStochastic, bool kAdds, bool kKeeps>
void encode_array(const EncodeTask& task, std::byte* coded) {
  using D = Draws<Machine, kStochastic>;
  const uint64_t seed = mixed(task.randomness.seed), first = task.randomness.first / kBlockValues;
  Source<Machine, kAdds, kKeeps> source = {task.values, task.residual, task.lost};
  const size_t blocks = task.count / kBlockValues, left = task.count % kBlockValues;
  for (size_t block = 0; block < blocks; ++block) {
    source.prefetch();
    encode_block<Machine, Format>(source, coded, kBlockValues, D(seed, first + block));
    coded += Format::kBytes;
    source.values += kBlockValues;
    if (kAdds) source.residual += kBlockValues;
    if (kKeeps) source.lost += kBlockValues;
  }
  if (left > 0) encode_part<Machine, Format>(source, coded, left, D(seed, first + blocks));
}

template <typename Machine, typename Format, bool kStochastic>
void encode_as(const EncodeTask& task, std::byte* coded) {
  if (task.residual == nullptr) {
    if (task.lost == nullptr) {
      encode_array<Machine, Format, kStochastic, false, false>(task, coded);
    } else {
      encode_array<Machine, Format, kStochastic, false, true>(task, coded);
    }
  } else if (task.lost == nullptr) {
    encode_array<Machine, Format, kStochastic, true, false>(task, coded);
  } else {
    encode_array<Machine, Format, kStochastic, true, true>(task, coded);
  }
  Machine::leave();
}

template <typename Machine, typename Format, bool kAdds>
void decode_array(const DecodeTask& task) {
  const std::byte* coded = task.coded;
  float* values = task.values;
  const size_t blocks = task.count / kBlockValues, left = task.count % kBlockValues;
  for (size_t block = 0; block < blocks; ++block) {
    decode_block<Machine, Format, kAdds>(coded, values, task.factor);
    coded += Format::kBytes;
    values += kBlockValues;
  }
  if (left == 0) return;
  float part[kBlockValues] = {};
  if (kAdds) __builtin_memcpy(part, values, left * sizeof(float));
  decode_block<Machine, Format, kAdds>(coded, part, task.factor);
  __builtin_memcpy(values, part, left * sizeof(float));
}

template <typename Machine, typename Format>
void decode_as(const DecodeTask& task) {
  task.adds ? decode_array<Machine, Format, true>(task) : decode_array<Machine, Format, false>(task);
  Machine::leave();
}

// ---- The table ----

template <typename Machine>
struct FormatsOf {
  using BFloat16 = Halves<Machine, BrainHalf<Machine>>;
  using Float16 = Halves<Machine, Half<Machine>>;
  template <bool kStochastic, template <typename, bool> typename Code, typename Scale>
  using Bytes = Scaled<Machine, Scale, Code<Machine, kStochastic>, ByteCodes<Machine, Code<Machine, kStochastic>>>;
  template <bool kStochastic, template <typename, bool> typename Code, typename Scale>
  using Nibbles = Scaled<Machine, Scale, Code<Machine, kStochastic>, NibbleCodes<Machine, Code<Machine, kStochastic>>>;
  template <bool kStochastic>
  using Fp8 = Bytes<kStochastic, E4M3, FloatScale<Machine, 448>>;
  template <bool kStochastic>
  using MxFp8 = Bytes<kStochastic, E4M3, PowerScales<Machine, 8, 14>>;
  template <bool kStochastic>
  using Int8 = Bytes<kStochastic, internal::Int8, FloatScale<Machine, 127>>;
  template <bool kStochastic>
  using Int4 = Nibbles<kStochastic, internal::Int4, PowerScales<Machine, 2, 14>>;
  template <bool kStochastic>
  using MxFp4 = Nibbles<kStochastic, E2M1, PowerScales<Machine, 2, 12>>;
};

template <typename Machine>
constexpr Kernels kernels_of() {
  using F = FormatsOf<Machine>;
  // In the order of the enumerators.
  return {.encode = {{encode_as<Machine, typename F::BFloat16, false>, nullptr},
                     {encode_as<Machine, typename F::Float16, false>, nullptr},
                     {encode_as<Machine, typename F::template Fp8<false>, false>,
                      encode_as<Machine, typename F::template Fp8<true>, true>},
                     {encode_as<Machine, typename F::template MxFp8<false>, false>,
                      encode_as<Machine, typename F::template MxFp8<true>, true>},
                     {encode_as<Machine, typename F::template Int8<false>, false>,
                      encode_as<Machine, typename F::template Int8<true>, true>},
                     {encode_as<Machine, typename F::template Int4<false>, false>,
                      encode_as<Machine, typename F::template Int4<true>, true>},
                     {encode_as<Machine, typename F::template MxFp4<false>, false>,
                      encode_as<Machine, typename F::template MxFp4<true>, true>},
                     {encode_as<Machine, Signs<Machine>, false>, nullptr}},
          .decode = {decode_as<Machine, typename F::BFloat16>, decode_as<Machine, typename F::Float16>,
                     decode_as<Machine, typename F::template Fp8<false>>,
                     decode_as<Machine, typename F::template MxFp8<false>>,
                     decode_as<Machine, typename F::template Int8<false>>,
                     decode_as<Machine, typename F::template Int4<false>>,
                     decode_as<Machine, typename F::template MxFp4<false>>, decode_as<Machine, Signs<Machine>>},
          .low_rank = {LowRankLoops<Machine, 1>::kernels(), LowRankLoops<Machine, 2>::kernels(),
                       LowRankLoops<Machine, 3>::kernels(), LowRankLoops<Machine, 4>::kernels()}};
}

}  // namespace
}  // namespace banyan::codec::internal
