// The kernels for x86-64 with AVX-512 F. Compiled for such a machine: nothing here may be called on another.
#include <immintrin.h>

#include "banyan/sparse/selection_loops.h"

namespace banyan::sparse::internal {
namespace {

// Compressed in registers: to compress into memory takes some processors a hundred cycles.
struct Avx512 {
  static constexpr size_t kLanes = 16;
  using Floats = __m512;
  static Floats load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Floats values) { _mm512_storeu_ps(to, values); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static uint32_t at_least(Floats values, uint32_t least) {
    return _mm512_cmpge_epu32_mask(magnitudes(values), _mm512_set1_epi32(static_cast<int>(least)));
  }
  static Floats kept(Floats sum, Floats residual) {
    return _mm512_mask_blend_ps(finite(sum), _mm512_maskz_mov_ps(finite(residual), residual), sum);
  }
  static void append(uint32_t* rows, float* sums, Floats values, uint32_t first, uint32_t mask) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto lane_mask = static_cast<__mmask16>(mask);
    _mm512_storeu_ps(sums, _mm512_maskz_compress_ps(lane_mask, values));
    _mm512_storeu_si512(rows, _mm512_maskz_compress_epi32(
                                  lane_mask, _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(first)))));
  }

 private:
  static __m512i magnitudes(Floats values) {
    return _mm512_and_si512(_mm512_castps_si512(values), _mm512_set1_epi32(kMagnitudeBits));
  }
  static __mmask16 finite(Floats values) {
    return _mm512_cmplt_epu32_mask(magnitudes(values), _mm512_set1_epi32(kInfinityBits));
  }
};

}  // namespace

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = {.filter = filter<Avx512>};
  return kKernels;
}

}  // namespace banyan::sparse::internal
