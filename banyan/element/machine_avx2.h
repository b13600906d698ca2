// The machine of kernels for x86-64 with AVX2 and F16C. Compiled for it: nothing here may be called on another.
#pragma once

#include <immintrin.h>

#include "banyan/element/vectors.h"

namespace banyan::element::internal {
namespace {

struct Avx2 {
  static constexpr size_t kWidth = 32;
  using Bytes = Vector<uint8_t, kWidth>;

  // Out of line, as they have many branches.
  [[gnu::noinline]] static Bytes load_part(const std::byte* from, size_t bytes) {
    const Word16 low = load_part_16(from, bytes), high = bytes > 16 ? load_part_16(from + 16, bytes - 16) : Word16{};
    return as<Bytes>(_mm256_set_m128i(as<__m128i>(high), as<__m128i>(low)));
  }
  [[gnu::noinline]] static void store_part(std::byte* to, Bytes vector, size_t bytes) {
    const __m256i both = as<__m256i>(vector);
    store_part_16(to, as<Word16>(_mm256_castsi256_si128(both)), bytes);
    if (bytes > 16) store_part_16(to + 16, as<Word16>(_mm256_extracti128_si256(both, 1)), bytes - 16);
  }

  static void stream(std::byte* to, Bytes vector) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), as<__m256i>(vector));
  }
  static void fence() { _mm_sfence(); }
  static void leave() { _mm256_zeroupper(); }

  static FloatPair<kWidth> widen_half(Bytes halves) {
    const __m256i both = as<__m256i>(halves);
    return {as<Floats>(_mm256_cvtph_ps(_mm256_castsi256_si128(both))),
            as<Floats>(_mm256_cvtph_ps(_mm256_extracti128_si256(both, 1)))};
  }
  static Bytes narrow_half(FloatPair<kWidth> floats) {
    const __m128i low = _mm256_cvtps_ph(as<__m256>(floats.first), _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph(as<__m256>(floats.second), _MM_FROUND_TO_NEAREST_INT);
    return as<Bytes>(_mm256_set_m128i(high, low));
  }

 private:
  using Floats = Vector<float, kWidth>;
};

}  // namespace
}  // namespace banyan::element::internal
