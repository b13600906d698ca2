// The machine of kernels for x86-64 with AVX-512 F, BW and VL. Compiled for it: nothing here may be called on another.
#pragma once

#include <immintrin.h>

#include "banyan/element/vectors.h"

namespace banyan::element::internal {
namespace {

struct Avx512 {
  static constexpr size_t kWidth = 64;
  using Bytes = Vector<uint8_t, kWidth>;

  static Bytes load_part(const std::byte* from, size_t bytes) {
    return as<Bytes>(_mm512_maskz_loadu_epi8(first(bytes), from));
  }
  static void store_part(std::byte* to, Bytes vector, size_t bytes) {
    _mm512_mask_storeu_epi8(to, first(bytes), as<__m512i>(vector));
  }

  static void stream(std::byte* to, Bytes vector) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), as<__m512i>(vector));
  }
  static void fence() { _mm_sfence(); }
  static void leave() { _mm256_zeroupper(); }

  static FloatPair<kWidth> widen_half(Bytes halves) {
    const __m512i both = as<__m512i>(halves);
    return {as<Floats>(_mm512_cvtph_ps(_mm512_castsi512_si256(both))),
            as<Floats>(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(both, 1)))};
  }
  static Bytes narrow_half(FloatPair<kWidth> floats) {
    const __m256i low = _mm512_cvtps_ph(as<__m512>(floats.first), _MM_FROUND_TO_NEAREST_INT);
    const __m256i high = _mm512_cvtps_ph(as<__m512>(floats.second), _MM_FROUND_TO_NEAREST_INT);
    return as<Bytes>(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }

 private:
  using Floats = Vector<float, kWidth>;

  static __mmask64 first(size_t bytes) { return (uint64_t{1} << bytes) - 1; }
};

}  // namespace
}  // namespace banyan::element::internal
