// Inside of the kernels of element and codec: vectors, and what they are made of.
//
// A *machine* (machine_*.h) says how wide its vectors are and does what the language cannot express:
//
//   struct Machine {
//     static constexpr size_t kWidth;                                 // bytes of a vector
//     static V load_part(const std::byte* from, size_t bytes);        // 0 < bytes < kWidth, zeros behind
//     static void store_part(std::byte* to, V vector, size_t bytes);  // 0 < bytes < kWidth
//     static void stream(std::byte* to, V vector);                    // past the caches; `to` is aligned to kWidth
//     static void fence();                                            // orders streams before later stores
//     static FloatPair<kWidth> widen_half(V halves);                  // in the order of memory
//     static V narrow_half(FloatPair<kWidth> floats);                 // to nearest even; every NaN given is kQuietNaN
//     static void leave();                                            // clears what slows other machines' code down
//   };                                                                // where V = Vector<uint8_t, kWidth>
//
// Everything here is in an unnamed namespace, in a header, on purpose: it is compiled several times with different
// instruction sets, and functions of external linkage would be merged by the linker into one that not every machine can
// run. For the same reason nothing inline of the standard library is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace banyan::element::internal {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are little-endian, in memory and on the wire");

template <typename T, size_t kWidth>
struct VectorOf {
  typedef T type __attribute__((vector_size(kWidth)));
};
template <typename T, size_t kWidth>
using Vector = typename VectorOf<T, kWidth>::type;

template <size_t kWidth>
struct FloatPair {
  Vector<float, kWidth> first, second;
};

template <typename To>
[[gnu::always_inline]] inline To load(const void* from) {
  To value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <typename From>
[[gnu::always_inline]] inline void store(void* to, const From& value) {
  __builtin_memcpy(to, &value, sizeof value);
}
// The bits of one vector as another.
template <typename To, typename From>
[[gnu::always_inline]] inline To as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return load<To>(&from);
}

// Parts of 16 bytes, without a branch per byte. Vectors are made of words in registers: a vector read where two words
// were just written waits for both.
using Word16 = Vector<uint64_t, 16>;

[[gnu::always_inline]] inline Word16 load_part_16(const std::byte* from, size_t bytes) {
  if (bytes >= 16) return load<Word16>(from);
  if (bytes > 8) return Word16{load<uint64_t>(from), load<uint64_t>(from + bytes - 8) >> (8 * (16 - bytes))};
  if (bytes == 8) return Word16{load<uint64_t>(from), 0};
  if (bytes >= 4) {
    const uint64_t last = load<uint32_t>(from + bytes - 4);
    return Word16{load<uint32_t>(from) | last << (8 * (bytes - 4)), 0};
  }
  if (bytes == 0) return Word16{};
  const auto at = [&](size_t i) { return static_cast<uint64_t>(from[i]) << (8 * i); };
  return Word16{at(0) | at(bytes / 2) | at(bytes - 1), 0};
}

[[gnu::always_inline]] inline void store_part_16(std::byte* to, Word16 vector, size_t bytes) {
  if (bytes >= 16) return store(to, vector);
  const uint64_t low = vector[0];
  if (bytes >= 8) {
    store(to, low);
    if (bytes > 8) store(to + bytes - 8, low >> (8 * (bytes - 8)) | vector[1] << (8 * (16 - bytes)));
    return;
  }
  if (bytes >= 4) {
    store(to, static_cast<uint32_t>(low));
    return store(to + bytes - 4, static_cast<uint32_t>(low >> (8 * (bytes - 4))));
  }
  if (bytes == 0) return;
  const auto put = [&](size_t i) { to[i] = static_cast<std::byte>(low >> (8 * i)); };
  put(0), put(bytes / 2), put(bytes - 1);
}

constexpr uint32_t kQuietNaN = 0x7fc00000;
constexpr uint64_t kQuietNaN64 = 0x7ff8000000000000;

template <typename V>
[[gnu::always_inline]] inline V with_one_nan(const V& vector) {
  using Bits = std::conditional_t<sizeof(vector[0]) == 4, uint32_t, uint64_t>;
  constexpr Bits kNaN = static_cast<Bits>(sizeof(Bits) == 4 ? kQuietNaN : kQuietNaN64);
  return vector == vector ? vector : as<V>(Vector<Bits, sizeof(V)>{} + kNaN);
}

}  // namespace
}  // namespace banyan::element::internal
