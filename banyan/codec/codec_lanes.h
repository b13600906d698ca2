// Inside of banyan/codec: vectors of values, and the small numbers that they become. For codec_loops.h; in an unnamed
// namespace for the reason that element/vectors.h tells.
//
// A machine is one of element/vectors.h that has these as well, of Words = Vector<int32_t, kWidth>:
//
//   static V pack(Words a, Words b, Words c, Words d);  // words of -128..127 as bytes
//   static V pack(Words a, Words b);                    // words of -32768..32767 as halves
//   static V pack_halves(V a, V b);                     // halves of 0..255 as bytes
//   static Floats least(Floats a, Floats b);            // a < b ? a : b, of Floats = Vector<float, kWidth>
//   static Floats most(Floats a, Floats b);             // a > b ? a : b
//   static Words widen_bytes(const std::byte* from);    // kWidth / 4 signed bytes
//   static Pairs widen_pairs(const std::byte* from);    // kWidth / 8 bytes as words of 64 bits without sign
//   static FloatPair<kWidth> widen_brain_half(V halves);
//   static uint32_t signs(Floats floats);               // bit i is the sign of float i
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "banyan/codec/codec.h"
#include "banyan/element/vectors.h"

namespace banyan::codec::internal {
namespace {

using element::internal::as;
using element::internal::FloatPair;
using element::internal::kQuietNaN;
using element::internal::load;
using element::internal::store;
using element::internal::Vector;
using element::internal::with_one_nan;

constexpr int32_t kMagnitude = 0x7fffffff, kSign = -kMagnitude - 1;
constexpr int32_t kLargestFinite = 0x7f7fffff;  // the bits of the greatest float
constexpr float kLargest = 0x1.fffffep127f;
// The least scale and the greatest inverse: both are normal numbers.
constexpr float kLeastScale = 0x1p-126f;

template <typename Machine>
struct V {
  static constexpr size_t kWidth = Machine::kWidth, kFloats = kWidth / 4;
  using Floats = Vector<float, kWidth>;
  using Words = Vector<int32_t, kWidth>;
  using Unsigned = Vector<uint32_t, kWidth>;
  using Bytes = Vector<uint8_t, kWidth>;
  using Pairs = Vector<uint64_t, kWidth>;

  [[gnu::always_inline]] static Floats floats(float value) { return Floats{} + value; }
  [[gnu::always_inline]] static Words magnitude(Floats value) { return as<Words>(value) & kMagnitude; }
  [[gnu::always_inline]] static Words most(Words a, Words b) { return a > b ? a : b; }
};

// Lanes of a vector added or compared in halves, down to four.
template <typename Op>
[[gnu::always_inline]] inline auto fold_to_four(const Vector<decltype(Op::kind), 16>& vector) {
  return vector;
}
template <typename Op>
[[gnu::always_inline]] inline auto fold_to_four(const Vector<decltype(Op::kind), 32>& vector) {
  using Half = Vector<decltype(Op::kind), 16>;
  const Half low = __builtin_shufflevector(vector, vector, 0, 1, 2, 3);
  const Half high = __builtin_shufflevector(vector, vector, 4, 5, 6, 7);
  return Op::of(low, high);
}
template <typename Op>
[[gnu::always_inline]] inline auto fold_to_four(const Vector<decltype(Op::kind), 64>& vector) {
  using Half = Vector<decltype(Op::kind), 32>;
  const Half low = __builtin_shufflevector(vector, vector, 0, 1, 2, 3, 4, 5, 6, 7);
  const Half high = __builtin_shufflevector(vector, vector, 8, 9, 10, 11, 12, 13, 14, 15);
  return fold_to_four<Op>(Op::of(low, high));
}
struct Greatest {
  static int32_t kind;
  template <typename T>
  [[gnu::always_inline]] static T of(const T& a, const T& b) {
    return a > b ? a : b;
  }
};
struct Sum {
  static float kind;
  template <typename T>
  [[gnu::always_inline]] static T of(const T& a, const T& b) {
    return a + b;
  }
};
template <typename Op>
[[gnu::always_inline]] inline auto fold_four(const Vector<decltype(Op::kind), 16>& four) {
  const auto two = Op::of(four, decltype(four)(__builtin_shufflevector(four, four, 2, 3, 0, 1)));
  return Op::of(two[0], two[1]);
}

// Four bytes as words without sign, and back. g++ 12 makes conversions of vectors of single elements.
using FourWords = Vector<int32_t, 16>;
[[gnu::always_inline]] inline FourWords widen_four(const std::byte* from) {
#ifdef __SSE2__
  const __m128i zero = _mm_setzero_si128(), bytes = _mm_cvtsi32_si128(load<int32_t>(from));
  return as<FourWords>(_mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero));
#else
  return __builtin_convertvector(load<Vector<uint8_t, 4> >(from), FourWords);
#endif
}
[[gnu::always_inline]] inline void narrow_four(std::byte* to, FourWords words) {
#ifdef __SSE2__
  const __m128i halves = _mm_packs_epi32(as<__m128i>(words), as<__m128i>(words));
  store(to, _mm_cvtsi128_si32(_mm_packus_epi16(halves, halves)));
#else
  store(to, __builtin_convertvector(words, Vector<uint8_t, 4>));
#endif
}

// ---- Random numbers ----
//
// A block has two keys, from the seed and the number of the block; value i of the block has a hash of both and i.
// Blocks: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Values: two multiplications as at the end of
// MurmurHash3, by the constants that Wellons' search found to have the least bias ("lowbias32").
[[gnu::always_inline]] inline uint64_t mixed(uint64_t word) {
  word += 0x9e3779b97f4a7c15;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
  word = (word ^ word >> 27) * 0x94d049bb133111eb;
  return word ^ word >> 31;
}

// The random numbers of one block. Rounding to nearest has none.
template <typename Machine, bool kStochastic>
struct Draws {
  [[gnu::always_inline]] Draws(uint64_t, uint64_t) {}
};
template <typename Machine>
struct Draws<Machine, true> {
  using Unsigned = typename V<Machine>::Unsigned;

  [[gnu::always_inline]] Draws(uint64_t mixed_seed, uint64_t block) {
    const uint64_t keys = mixed(mixed_seed + block);
    first = static_cast<uint32_t>(keys), second = static_cast<uint32_t>(keys >> 32);
  }
  // The random bits of the values of one vector, which begins at value `at` of the block.
  [[gnu::always_inline]] Unsigned bits(size_t at) const {
    Unsigned word = lanes() + (static_cast<uint32_t>(at) + first);
    word = (word ^ word >> 16) * 0x7feb352du;
    word = ((word ^ word >> 15) + second) * 0x846ca68bu;
    return word ^ word >> 16;
  }
  [[gnu::always_inline]] static Unsigned lanes() {
    Unsigned all = {};
    for (uint32_t i = 0; i < V<Machine>::kFloats; ++i) all[i] = i;
    return all;
  }

  uint32_t first, second;
};

// ---- Small numbers: what a value divided by its scale becomes, and back. Codes are words of -128..127 ----
//
//   struct Code {
//     static constexpr int32_t kMost;  // the bits of the greatest value that has a finite code at any scale
//     static Rounded encode(Floats scaled, const Draws&, size_t at);
//     static Floats decode(Words code);
//     static Words of_nibble(Words nibble);
//   };
//
// Rounded to nearest, a value may exceed the greatest code by what does not round up; stochastically, it must not.

template <typename Machine>
struct Rounded {
  typename V<Machine>::Words code;
  typename V<Machine>::Floats value;  // that the code stands for
};

// Whole numbers of -kGreatest..kGreatest.
template <typename Machine, int kGreatest, bool kStochastic>
struct WholeNumber {
  using L = V<Machine>;
  using Floats = typename L::Floats;
  using Words = typename L::Words;
  static constexpr int32_t kMost = kGreatest == 7 ? 0x7f600000 : kLargestFinite;

  [[gnu::always_inline]] static Rounded<Machine> encode(Floats scaled, const Draws<Machine, kStochastic>& draws,
                                                        size_t at) {
    if constexpr (kStochastic) {
      // In units of 2^-24 the random number is added, and what is below one cut off.
      const Floats within = Machine::most(Machine::least(scaled, L::floats(kGreatest)), L::floats(-kGreatest));
      const Words units = __builtin_convertvector(within * 0x1p24f, Words);
      const Words code = (units + as<Words>(draws.bits(at) >> 8)) >> 24;
      return {code, decode(code)};
    } else {
      // A float whose last bit stands for 1 is rounded to nearest even.
      constexpr float kOnes = 0x1.8p23f;
      const Floats sum = scaled + kOnes;
      return {as<Words>(sum) - 0x4b400000, sum - kOnes};
    }
  }
  [[gnu::always_inline]] static Floats decode(Words code) { return __builtin_convertvector(code, Floats); }
  [[gnu::always_inline]] static Words of_nibble(Words nibble) { return (nibble ^ 8) - 8; }
};

// Floats of a sign, an exponent and kFraction bits, without infinities. kHasNaN: all ones.
template <typename Machine, int kBias, int kFraction, int kGreatest, bool kHasNaN, bool kStochastic>
struct SmallFloat {
  using L = V<Machine>;
  using Floats = typename L::Floats;
  using Words = typename L::Words;
  static constexpr int32_t kMost = kGreatest == 6 ? 0x7f400000 : 0x7f600000;

  [[gnu::always_inline]] static Rounded<Machine> encode(Floats scaled, const Draws<Machine, kStochastic>& draws,
                                                        size_t at) {
    const Words sign = as<Words>(scaled) & kSign, sign_code = (as<Words>(scaled) >> 31) & (kHasNaN ? -128 : 8);
    const Floats magnitude = as<Floats>(L::magnitude(scaled));
    if constexpr (kStochastic) {
      // The code with kDropped bits behind it, to which as many random ones are added.
      const Floats within = Machine::least(magnitude, L::floats(kGreatest));
      const Words bits = as<Words>(within), subnormal = __builtin_convertvector(within * kLastBits, Words);
      const Words exact = bits < kLeastNormal ? subnormal : bits - kRebias;
      const Words code = (exact + as<Words>(draws.bits(at) >> (32 - kDropped))) >> kDropped;
      return {code | sign_code, as<Floats>(as<Words>(finite(code)) | sign)};
    } else {
      // Added to a power of two whose last bit is that of the code. Its steps begin with the code `first`, or with 0.
      Words exponent = as<Words>(scaled) & 0x7f800000;
      exponent = L::most(exponent, Words{} + kLeastNormal);
      const Words aligned = exponent + (kDropped << 23);
      const Floats sum = magnitude + as<Floats>(aligned);
      const Words steps = as<Words>(sum) - aligned, first = (exponent - kLeastNormal) >> kDropped;
      return {(steps + first) | sign_code, as<Floats>(as<Words>(sum - as<Floats>(aligned)) | sign)};
    }
  }

  [[gnu::always_inline]] static Floats decode(Words code) {
    const Words magnitude = code & kCodes;
    Words bits = as<Words>(finite(magnitude));
    if constexpr (kHasNaN) bits = magnitude == kCodes ? Words{} + static_cast<int32_t>(kQuietNaN) : bits;
    return as<Floats>(bits | (kHasNaN ? code & kSign : (code & (kCodes + 1)) << 28));
  }
  [[gnu::always_inline]] static Words of_nibble(Words nibble) { return nibble; }

 private:
  static constexpr int kDropped = 23 - kFraction;               // bits of a float's fraction
  static constexpr int32_t kRebias = (127 - kBias) << 23;       // between the exponents
  static constexpr int32_t kLeastNormal = (128 - kBias) << 23;  // as a float
  static constexpr int32_t kCodes = kHasNaN ? 0x7f : 0x07;      // all but the sign
  static constexpr float kLastBits = static_cast<float>(1 << (kBias + 22));

  // The float of a code without sign.
  [[gnu::always_inline]] static Floats finite(Words code) {
    const Words bits = code << kDropped;
    const Floats subnormal = as<Floats>(bits + kLeastNormal) - as<Floats>(Words{} + kLeastNormal);
    return code < (1 << kFraction) ? subnormal : as<Floats>(bits + kRebias);
  }
};

template <typename Machine, bool kStochastic>
using Int8 = WholeNumber<Machine, 127, kStochastic>;
template <typename Machine, bool kStochastic>
using Int4 = WholeNumber<Machine, 7, kStochastic>;
template <typename Machine, bool kStochastic>
using E4M3 = SmallFloat<Machine, 7, 3, 448, true, kStochastic>;
template <typename Machine, bool kStochastic>
using E2M1 = SmallFloat<Machine, 1, 1, 6, false, kStochastic>;

}  // namespace
}  // namespace banyan::codec::internal
