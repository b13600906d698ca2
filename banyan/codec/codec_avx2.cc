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

  static Bytes pack(Words a, Words b, Words c, Words d) {
    const __m256i bytes = _mm256_packs_epi16(packed(a, b), packed(c, d));
    return as<Bytes>(_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
  static Bytes pack(Words a, Words b) { return as<Bytes>(_mm256_permute4x64_epi64(packed(a, b), 0xd8)); }
  static Bytes pack_halves(Bytes a, Bytes b) {
    return as<Bytes>(_mm256_permute4x64_epi64(_mm256_packus_epi16(as<__m256i>(a), as<__m256i>(b)), 0xd8));
  }
  static uint32_t signs(Floats floats) { return static_cast<uint32_t>(_mm256_movemask_ps(as<__m256>(floats))); }

 private:
  static __m256i packed(Words a, Words b) { return _mm256_packs_epi32(as<__m256i>(a), as<__m256i>(b)); }
};

}  // namespace

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = kernels_of<Avx2>();
  return kKernels;
}

}  // namespace banyan::codec::internal
