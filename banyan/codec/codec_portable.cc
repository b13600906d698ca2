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
  using Pairs = Vector<uint64_t, kWidth>;

  static Floats least(Floats a, Floats b) { return a < b ? a : b; }
  static Floats most(Floats a, Floats b) { return a > b ? a : b; }
  static Pairs widen_pairs(const std::byte* from) {
    return Pairs{static_cast<uint64_t>(from[0]), static_cast<uint64_t>(from[1])};
  }

#ifdef __SSE2__
  static Bytes pack(Words a, Words b, Words c, Words d) {
    return as<Bytes>(_mm_packs_epi16(packed(a, b), packed(c, d)));
  }
  static Bytes pack(Words a, Words b) { return as<Bytes>(packed(a, b)); }
  static Bytes pack_halves(Bytes a, Bytes b) { return as<Bytes>(_mm_packus_epi16(as<__m128i>(a), as<__m128i>(b))); }
  // Each byte goes to the top of a word; the shift back down keeps its sign.
  static Words widen_bytes(const std::byte* from) {
    const __m128i bytes = _mm_cvtsi32_si128(load<int32_t>(from)), pairs = _mm_unpacklo_epi8(bytes, bytes);
    return as<Words>(_mm_srai_epi32(_mm_unpacklo_epi16(pairs, pairs), 24));
  }
  // A bfloat16 is the upper half of a float32: zeros go below it.
  static FloatPair<kWidth> widen_brain_half(Bytes halves) {
    const __m128i zero = _mm_setzero_si128(), both = as<__m128i>(halves);
    return {as<Floats>(_mm_unpacklo_epi16(zero, both)), as<Floats>(_mm_unpackhi_epi16(zero, both))};
  }
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
  static Words widen_bytes(const std::byte* from) {
    return __builtin_convertvector(load<Vector<int8_t, 4> >(from), Words);
  }
  static FloatPair<kWidth> widen_brain_half(Bytes halves) {
    const Bytes zero = {};
    return {as<Floats>(__builtin_shufflevector(zero, halves, 0, 1, 16, 17, 0, 1, 18, 19, 0, 1, 20, 21, 0, 1, 22, 23)),
            as<Floats>(__builtin_shufflevector(zero, halves, 0, 1, 24, 25, 0, 1, 26, 27, 0, 1, 28, 29, 0, 1, 30, 31))};
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
