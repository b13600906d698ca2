// The kernels for x86-64 with AVX-512 F, BW and VL. Compiled for such a machine: nothing here may be called on another.
#include <immintrin.h>

#include "banyan/codec/codec_loops.h"
#include "banyan/element/machine_avx512.h"

namespace banyan::codec::internal {
namespace {

// Packing works within quarters of a register; a permutation mends the order.
struct Avx512 : element::internal::Avx512 {
  using Words = Vector<int32_t, kWidth>;
  using Floats = Vector<float, kWidth>;
  using Pairs = Vector<uint64_t, kWidth>;

  static Bytes pack(Words a, Words b, Words c, Words d) {
    const __m512i bytes = _mm512_packs_epi16(packed(a, b), packed(c, d));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return as<Bytes>(_mm512_permutexvar_epi32(order, bytes));
  }
  static Bytes pack(Words a, Words b) {
    return as<Bytes>(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed(a, b)));
  }
  static Bytes pack_halves(Bytes a, Bytes b) {
    const __m512i bytes = _mm512_packus_epi16(as<__m512i>(a), as<__m512i>(b));
    return as<Bytes>(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), bytes));
  }
  static Words widen_bytes(const std::byte* from) { return as<Words>(_mm512_cvtepi8_epi32(load<__m128i>(from))); }
  static Pairs widen_pairs(const std::byte* from) {
    return as<Pairs>(_mm512_cvtepu8_epi64(_mm_cvtsi64_si128(load<int64_t>(from))));
  }
  static FloatPair<kWidth> widen_brain_half(Bytes halves) {
    const __m512i both = as<__m512i>(halves);
    return {widened(_mm512_castsi512_si256(both)), widened(_mm512_extracti64x4_epi64(both, 1))};
  }
  static Floats least(Floats a, Floats b) { return as<Floats>(_mm512_min_ps(as<__m512>(a), as<__m512>(b))); }
  static Floats most(Floats a, Floats b) { return as<Floats>(_mm512_max_ps(as<__m512>(a), as<__m512>(b))); }
  static uint32_t signs(Floats floats) { return _mm512_test_epi32_mask(as<__m512i>(floats), _mm512_set1_epi32(kSign)); }

 private:
  // A bfloat16 is the upper half of a float32.
  static Floats widened(__m256i halves) { return as<Floats>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)); }
  // Values of 32 bits become 16, cut off at the ends of their range.
  static __m512i packed(Words a, Words b) { return _mm512_packs_epi32(as<__m512i>(a), as<__m512i>(b)); }
};

}  // namespace

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = kernels_of<Avx512>();
  return kKernels;
}

}  // namespace banyan::codec::internal
