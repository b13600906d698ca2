// The kernels for any machine.
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "banyan/codec/codec_loops.h"
#include "banyan/element/machine_portable.h"

namespace banyan::codec::internal {
namespace {

struct Portable : element::internal::Portable {
  using Words = Vector<int32_t, kWidth>;
  using Floats = Vector<float, kWidth>;

#ifdef __SSE2__
  static Bytes pack(Words a, Words b, Words c, Words d) {
    return as<Bytes>(_mm_packs_epi16(packed(a, b), packed(c, d)));
  }
  static Bytes pack(Words a, Words b) { return as<Bytes>(packed(a, b)); }
  static Bytes pack_halves(Bytes a, Bytes b) { return as<Bytes>(_mm_packus_epi16(as<__m128i>(a), as<__m128i>(b))); }
  static uint32_t signs(Floats floats) { return static_cast<uint32_t>(_mm_movemask_ps(as<__m128>(floats))); }

 private:
  static __m128i packed(Words a, Words b) { return _mm_packs_epi32(as<__m128i>(a), as<__m128i>(b)); }
#else
  // Little-endian: the low bytes come first.
  static Bytes pack(Words a, Words b, Words c, Words d) { return pack_halves(pack(a, b), pack(c, d)); }
  static Bytes pack(Words a, Words b) {
    return __builtin_shufflevector(as<Bytes>(a), as<Bytes>(b), 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28,
                                   29);
  }
  static Bytes pack_halves(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  }
  static uint32_t signs(Floats floats) {
    const Vector<uint32_t, kWidth> bits = as<Vector<uint32_t, kWidth> >(floats) >> 31;
    return bits[0] | bits[1] << 1 | bits[2] << 2 | bits[3] << 3;
  }
#endif
};

}  // namespace

const Kernels& portable_kernels() {
  static constexpr Kernels kKernels = kernels_of<Portable>();
  return kKernels;
}

}  // namespace banyan::codec::internal
