// The kernels for x86-64 with AVX2. Compiled for such a machine: nothing here may be called on another.
#include <immintrin.h>

#include "banyan/sparse/selection_loops.h"

namespace banyan::sparse::internal {
namespace {

// For each mask the lanes that are set, first ones first, a byte each.
struct LanesOfMasks {
  uint64_t of[256];
};
constexpr LanesOfMasks lanes_of_masks() {
  LanesOfMasks lanes{};
  for (uint32_t mask = 0; mask < 256; ++mask) {
    // Bytes behind the last lane stay 0: nobody reads what they select.
    unsigned shift = 0;
    for (uint64_t lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      lanes.of[mask] |= lane << shift;
      shift += 8;
    }
  }
  return lanes;
}
constexpr LanesOfMasks kLanesOfMasks = lanes_of_masks();

struct Avx2 {
  static constexpr size_t kLanes = 8;
  using Floats = __m256;
  static Floats load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Floats values) { _mm256_storeu_ps(to, values); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static uint32_t at_least(Floats values, uint32_t least) {
    // Magnitudes have no sign bit, so a signed comparison orders them. AVX2 has "greater" alone.
    const __m256i less = _mm256_set1_epi32(static_cast<int>(least) - 1);
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(magnitudes(values), less))));
  }
  static Floats kept(Floats sum, Floats residual) {
    return _mm256_blendv_ps(_mm256_and_ps(residual, finite(residual)), sum, finite(sum));
  }
  static void append(uint32_t* rows, float* sums, Floats values, uint32_t first, uint32_t mask) {
    // The chosen lanes move to the front, as the table says; what is stored behind them is written over later.
    const __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kLanesOfMasks.of[mask])));
    _mm256_storeu_ps(sums, _mm256_permutevar8x32_ps(values, lanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows),
                        _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(first))));
  }

 private:
  static __m256i magnitudes(Floats values) {
    return _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(kMagnitudeBits));
  }
  static Floats finite(Floats values) {
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(kInfinityBits), magnitudes(values)));
  }
};

}  // namespace

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = {.filter = filter<Avx2>};
  return kKernels;
}

}  // namespace banyan::sparse::internal
