// Inside of banyan/codec: vectors of values, and the small numbers that they become. For codec_loops.h; in an unnamed
// namespace for the reason that element/vectors.h tells.
//
// A machine is one of element/vectors.h that has these as well, of Words = Vector<int32_t, kWidth>:
//
//   static V pack(Words a, Words b, Words c, Words d);  // words of -128..127 as bytes
//   static V pack(Words a, Words b);                    // words of -32768..32767 as halves
//   static V pack_halves(V a, V b);                     // halves of 0..255 as bytes
//   static uint32_t signs(Vector<float, kWidth> floats);  // bit i is the sign of float i
#pragma once

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

  [[gnu::always_inline]] static Floats floats(float value) { return Floats{} + value; }
  [[gnu::always_inline]] static Words magnitude(Floats value) { return as<Words>(value) & kMagnitude; }
  [[gnu::always_inline]] static Floats least(Floats a, Floats b) { return a < b ? a : b; }
  [[gnu::always_inline]] static Floats most(Floats a, Floats b) { return a > b ? a : b; }
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

// ---- Random numbers ----
//
// A block has two keys, from the seed and the number of the block; value i of the block has a hash of both and i.
// Blocks: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Values: two multiplications as MurmurHash3 ends
// with, by the constants that Wellons' search found to have the least bias ("lowbias32").
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
  // Of the values of one vector, of which `at` is the first.
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

// Whole numbers of -kMost..kMost.
template <typename Machine, int kMost, bool kStochastic>
struct WholeNumber {
  using L = V<Machine>;
  using Floats = typename L::Floats;
  using Words = typename L::Words;

  [[gnu::always_inline]] static Words encode(Floats scaled, const Draws<Machine, kStochastic>& draws, size_t at) {
    const Floats within = L::most(L::least(scaled, L::floats(kMost)), L::floats(-kMost));
    if constexpr (kStochastic) {
      // In units of 2^-24 the random number is added, and what is below one cut off.
      const Words units = __builtin_convertvector(within * 0x1p24f, Words);
      return (units + as<Words>(draws.bits(at) >> 8)) >> 24;
    } else {
      // Where 1 is the last bit of a float, it rounds to nearest even.
      constexpr float kOnes = 0x1.8p23f;
      return as<Words>(within + kOnes) - 0x4b400000;
    }
  }
  [[gnu::always_inline]] static Floats decode(Words code) { return __builtin_convertvector(code, Floats); }
  [[gnu::always_inline]] static Words of_nibble(Words nibble) { return (nibble ^ 8) - 8; }
};

// Floats of a sign, an exponent and kFraction bits, without infinities. kSpecial: all ones are NaN.
template <typename Machine, int kBias, int kFraction, int kMostTimes2, bool kSpecial, bool kStochastic>
struct SmallFloat {
  using L = V<Machine>;
  using Floats = typename L::Floats;
  using Words = typename L::Words;
  static constexpr float kMost = kMostTimes2 / 2.0f;
  static constexpr int kDropped = 23 - kFraction;               // bits of a float's fraction
  static constexpr int32_t kRebias = (127 - kBias) << 23;       // between the exponents
  static constexpr int32_t kLeastNormal = (128 - kBias) << 23;  // as a float
  static constexpr int32_t kCodes = kSpecial ? 0x7f : 0x07;     // all but the sign
  static constexpr int32_t kSignBit = kCodes + 1;

  [[gnu::always_inline]] static Words encode(Floats scaled, const Draws<Machine, kStochastic>& draws, size_t at) {
    const Floats value = L::least(as<Floats>(L::magnitude(scaled)), L::floats(kMost));
    const Words bits = as<Words>(value);
    Words code;
    if constexpr (kStochastic) {
      // The code with kDropped bits behind it, to which as many random ones are added.
      const Words subnormal = __builtin_convertvector(value * power_of_two(kBias + 22), Words);
      const Words exact = bits < kLeastNormal ? subnormal : bits - kRebias;
      code = (exact + as<Words>(draws.bits(at) >> (32 - kDropped))) >> kDropped;
    } else {
      const Words normal = (bits - kRebias + ((1 << (kDropped - 1)) - 1) + (bits >> kDropped & 1)) >> kDropped;
      // Added to a float whose last bit is the least code.
      constexpr float kAligned = power_of_two(24 - kBias - kFraction);
      const Words subnormal = as<Words>(value + kAligned) - ((151 - kBias - kFraction) << 23);
      code = bits < kLeastNormal ? subnormal : normal;
    }
    return code | ((as<Words>(scaled) >> 31) & (kSpecial ? -128 : 8));
  }

  [[gnu::always_inline]] static Floats decode(Words code) {
    const Words magnitude = code & kCodes, shifted = magnitude << kDropped;
    const Floats subnormal = as<Floats>(shifted + kLeastNormal) - as<Floats>(Words{} + kLeastNormal);
    const Words normal = shifted + kRebias;
    Words bits = magnitude < (1 << kFraction) ? as<Words>(subnormal) : normal;
    if constexpr (kSpecial) bits = magnitude == kCodes ? Words{} + static_cast<int32_t>(kQuietNaN) : bits;
    return as<Floats>(bits | (kSpecial ? code & kSign : (code & kSignBit) << 28));
  }
  [[gnu::always_inline]] static Words of_nibble(Words nibble) { return nibble; }

 private:
  static constexpr float power_of_two(int exponent) {
    float power = 1;
    for (int i = 0; i < exponent; ++i) power *= 2;
    return power;
  }
};

template <typename Machine, bool kStochastic>
using Int8 = WholeNumber<Machine, 127, kStochastic>;
template <typename Machine, bool kStochastic>
using Int4 = WholeNumber<Machine, 7, kStochastic>;
template <typename Machine, bool kStochastic>
using E4M3 = SmallFloat<Machine, 7, 3, 2 * 448, true, kStochastic>;
template <typename Machine, bool kStochastic>
using E2M1 = SmallFloat<Machine, 1, 1, 2 * 6, false, kStochastic>;

}  // namespace
}  // namespace banyan::codec::internal
