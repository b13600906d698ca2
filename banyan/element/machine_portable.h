// The machine of kernels for any processor: vectors of 16 bytes in the instructions that every x86-64 has, or whatever
// the compiler makes of them elsewhere.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "banyan/element/vectors.h"

namespace banyan::element::internal {
namespace {

struct Portable {
  static constexpr size_t kWidth = 16;
  using Bytes = Vector<uint8_t, kWidth>;
  using Words = Vector<int32_t, kWidth>;  // of half-floats and floats without their signs, so comparisons are right
  using Floats = Vector<float, kWidth>;

  // Out of line, as they have many branches.
  [[gnu::noinline]] static Bytes load_part(const std::byte* from, size_t bytes) {
    return as<Bytes>(load_part_16(from, bytes));
  }
  [[gnu::noinline]] static void store_part(std::byte* to, Bytes vector, size_t bytes) {
    store_part_16(to, as<Word16>(vector), bytes);
  }

  static void stream(std::byte* to, Bytes vector) {
#ifdef __SSE2__
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), as<__m128i>(vector));
#else
    store(to, vector);
#endif
  }
  static void fence() {
#ifdef __SSE2__
    _mm_sfence();
#endif
  }

  static void leave() {}

  static FloatPair<kWidth> widen_half(Bytes halves) {
    const auto [low, high] = load<Split>(&halves);
    return {widened(__builtin_convertvector(low, Words)), widened(__builtin_convertvector(high, Words))};
  }
  static Bytes narrow_half(FloatPair<kWidth> floats) {
    using Halves = Vector<uint16_t, kWidth / 2>;
    return as<Bytes>(Split{__builtin_convertvector(narrowed(floats.first), Halves),
                           __builtin_convertvector(narrowed(floats.second), Halves)});
  }

 private:
  struct Split {
    Vector<uint16_t, kWidth / 2> low, high;
  };

  // The exponent is moved from a bias of 15 to one of 127. Subnormals get an exponent that makes them normal, and lose
  // the leading one that came with it by a subtraction, which is exact.
  static Floats widened(Words halves) {
    constexpr int32_t kBias = (127 - 15) << 23, kLeast = (127 - 14) << 23;
    const Words magnitude = (halves & 0x7fff) << 13;
    const Words normal = magnitude + kBias;
    const Words subnormal = as<Words>(as<Floats>(magnitude + kLeast) - as<Floats>(Words{} + kLeast));
    const Words special = magnitude + 2 * kBias;  // infinity and NaN
    const Words exponent = halves & 0x7c00;
    const Words result = exponent == 0 ? subnormal : exponent == 0x7c00 ? special : normal;
    return as<Floats>(result | (halves & 0x8000) << 16);
  }

  // Numbers below the least normal half are added to one whose last bit is that of the subnormals, and rounded by that.
  static Words narrowed(Floats floats) {
    constexpr int32_t kBias = (127 - 15) << 23, kLeast = (127 - 14) << 23, kTooLarge = (127 + 16) << 23;
    constexpr int32_t kAligned = (127 - 1) << 23;  // 0.5, whose last bit is 2^-24
    const Words words = as<Words>(floats), magnitude = words & 0x7fffffff;
    const Words normal = (magnitude - kBias + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const Words subnormal = as<Words>(as<Floats>(magnitude) + as<Floats>(Words{} + kAligned)) - kAligned;
    const Words special = magnitude > 0x7f800000 ? Words{} + 0x7e00 : Words{} + 0x7c00;
    const Words result = magnitude < kLeast ? subnormal : magnitude >= kTooLarge ? special : normal;
    return result | (words >> 16 & 0x8000);
  }
};

}  // namespace
}  // namespace banyan::element::internal
