// The kernels for x86-64 with AVX2 and F16C. Compiled for such a machine: nothing here may be called on another.
#include <immintrin.h>

#include "banyan/codec/codec_loops.h"
#include "banyan/element/machine_avx2.h"

namespace banyan::codec::internal {
namespace {

// Packing works within halves of a register; a permutation mends the order.
struct Avx2 : element::internal::Avx2 {
  using Words = Vector<int32_t, kWidth>;
  using Floats = Vector<float, kWidth>;
  using Pairs = Vector<uint64_t, kWidth>;

  static Bytes pack(Words a, Words b, Words c, Words d) {
    const __m256i bytes = _mm256_packs_epi16(packed(a, b), packed(c, d));
    return as<Bytes>(_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
  static Bytes pack(Words a, Words b) { return as<Bytes>(_mm256_permute4x64_epi64(packed(a, b), 0xd8)); }
  static Bytes pack_halves(Bytes a, Bytes b) {
    return as<Bytes>(_mm256_permute4x64_epi64(_mm256_packus_epi16(as<__m256i>(a), as<__m256i>(b)), 0xd8));
  }
  static Words widen_bytes(const std::byte* from) {
    return as<Words>(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(load<int64_t>(from))));
  }
  static Pairs widen_pairs(const std::byte* from) {
    return as<Pairs>(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(load<int32_t>(from))));
  }
  static FloatPair<kWidth> widen_brain_half(Bytes halves) {
    const __m256i both = as<__m256i>(halves);
    return {widened(_mm256_castsi256_si128(both)), widened(_mm256_extracti128_si256(both, 1))};
  }
  static Floats least(Floats a, Floats b) { return as<Floats>(_mm256_min_ps(as<__m256>(a), as<__m256>(b))); }
  static Floats most(Floats a, Floats b) { return as<Floats>(_mm256_max_ps(as<__m256>(a), as<__m256>(b))); }
  static uint32_t signs(Floats floats) { return static_cast<uint32_t>(_mm256_movemask_ps(as<__m256>(floats))); }

 private:
  // A bfloat16 is the upper half of a float32.
  static Floats widened(__m128i halves) { return as<Floats>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16)); }
  // Values of 32 bits become 16, cut off at the ends of their range.
  static __m256i packed(Words a, Words b) { return _mm256_packs_epi32(as<__m256i>(a), as<__m256i>(b)); }
};

}  // namespace

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = kernels_of<Avx2>();
  return kKernels;
}

}  // namespace banyan::codec::internal
