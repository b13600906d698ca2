// Inside of banyan/run/element: vectors of elements, and what the operations do to them. For reduce_loops.h.
//
// A *machine* says how wide its vectors are and does what the language cannot express:
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

struct Sum {
  static constexpr bool kWraps = true, kDivides = false;  // integers wrap when they are taken as unsigned ones
  template <typename T, typename V>
  [[gnu::always_inline]] static V apply(const V& left, const V& right) {
    return left + right;
  }
};
struct Prod {
  static constexpr bool kWraps = true, kDivides = false;
  template <typename T, typename V>
  [[gnu::always_inline]] static V apply(const V& left, const V& right) {
    return left * right;
  }
};
struct Min {
  static constexpr bool kWraps = false, kDivides = false;
  template <typename T, typename V>
  [[gnu::always_inline]] static V apply(const V& left, const V& right) {
    if constexpr (std::is_floating_point_v<T>) {
      return ((right < left) | (left != left)) ? right : left;
    } else {
      return right < left ? right : left;
    }
  }
};
struct Max {
  static constexpr bool kWraps = false, kDivides = false;
  template <typename T, typename V>
  [[gnu::always_inline]] static V apply(const V& left, const V& right) {
    if constexpr (std::is_floating_point_v<T>) {
      return ((right > left) | (left != left)) ? right : left;
    } else {
      return right > left ? right : left;
    }
  }
};
struct Avg : Sum {
  static constexpr bool kDivides = true;
};

// Of bytes, whatever they are a part of.
struct And {
  static constexpr bool kWraps = false, kDivides = false;
  template <typename T, typename V>
  [[gnu::always_inline]] static V apply(const V& left, const V& right) {
    return left & right;
  }
};
struct Or {
  static constexpr bool kWraps = false, kDivides = false;
  template <typename T, typename V>
  [[gnu::always_inline]] static V apply(const V& left, const V& right) {
    return left | right;
  }
};
struct Xor {
  static constexpr bool kWraps = false, kDivides = false;
  template <typename T, typename V>
  [[gnu::always_inline]] static V apply(const V& left, const V& right) {
    return left ^ right;
  }
};

// What a sum is divided by. For floats a power of two is multiplied by its inverse: the same bits, sooner.
template <typename T>
struct Divisor {
  explicit Divisor(uint32_t number)
      : inverts((number & (number - 1)) == 0),
        factor(inverts ? T(1) / static_cast<T>(number) : static_cast<T>(number)) {}

  template <typename V>
  [[gnu::always_inline]] V divide(const V& vector) const {
    return inverts ? vector * factor : vector / factor;
  }

  bool inverts;
  T factor;
};
template <typename T>
requires std::is_integral_v<T>
struct Divisor<T> {
  // A quotient of two numbers below 2^32 that is not whole is off the next whole number by 2^-32 of itself at least, so
  // that a double truncates it to the right one.
  using Wide = std::conditional_t<sizeof(T) < 8, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

  explicit Divisor(uint32_t number) : factor(static_cast<Wide>(number)) {}

  template <typename V>
  [[gnu::always_inline]] V divide(const V& vector) const {
    T elements[sizeof vector / sizeof(T)];
    store(elements, vector);
    for (T& element : elements) element = static_cast<T>(static_cast<Wide>(element) / factor);
    return load<V>(elements);
  }

  Wide factor;
};

struct Half {};  // elements of two bytes that no arithmetic knows
struct BrainHalf {};

template <typename T>
constexpr size_t kElementBytes = sizeof(T);
template <>
constexpr size_t kElementBytes<Half> = 2;
template <>
constexpr size_t kElementBytes<BrainHalf> = 2;

constexpr uint32_t kQuietNaN = 0x7fc00000;
constexpr uint64_t kQuietNaN64 = 0x7ff8000000000000;

template <typename V>
[[gnu::always_inline]] inline V with_one_nan(const V& vector) {
  using Bits = std::conditional_t<sizeof(vector[0]) == 4, uint32_t, uint64_t>;
  constexpr Bits kNaN = static_cast<Bits>(sizeof(Bits) == 4 ? kQuietNaN : kQuietNaN64);
  return vector == vector ? vector : as<V>(Vector<Bits, sizeof(V)>{} + kNaN);
}

// How elements of type T are accumulated. Most as they are:
template <typename Machine, typename T>
struct Lanes {
  static constexpr bool kIsFloat = std::is_floating_point_v<T>;
  using Bytes = Vector<uint8_t, Machine::kWidth>;
  using Accumulator = Vector<T, Machine::kWidth>;
  using Number = T;

  [[gnu::always_inline]] static Accumulator widen(const Bytes& bytes) { return as<Accumulator>(bytes); }

  [[gnu::always_inline]] static Bytes narrow(const Accumulator& sum) {
    if constexpr (kIsFloat) {
      return as<Bytes>(with_one_nan(sum));
    } else {
      return as<Bytes>(sum);
    }
  }

  template <typename Op>
  [[gnu::always_inline]] static Accumulator apply(const Accumulator& left, const Accumulator& right) {
    if constexpr (!kIsFloat && Op::kWraps) {
      using Wrapping = Vector<std::make_unsigned_t<T>, Machine::kWidth>;
      return as<Accumulator>(Op::template apply<T>(as<Wrapping>(left), as<Wrapping>(right)));
    } else {
      return Op::template apply<T>(left, right);
    }
  }

  [[gnu::always_inline]] static Accumulator divide(const Accumulator& sum, const Divisor<Number>& by) {
    return by.divide(sum);
  }
};

// those of 16 bits in float32.
template <typename Machine>
struct FloatLanes {
  using Bytes = Vector<uint8_t, Machine::kWidth>;
  using Accumulator = FloatPair<Machine::kWidth>;
  using Number = float;

  template <typename Op>
  [[gnu::always_inline]] static Accumulator apply(const Accumulator& left, const Accumulator& right) {
    return {Op::template apply<float>(left.first, right.first), Op::template apply<float>(left.second, right.second)};
  }
  [[gnu::always_inline]] static Accumulator divide(const Accumulator& sum, const Divisor<float>& by) {
    return {by.divide(sum.first), by.divide(sum.second)};
  }
  // Elements in the order of memory, and as widen() gives them.
  [[gnu::always_inline]] static Accumulator to_order(const Accumulator& floats) { return floats; }
  [[gnu::always_inline]] static Accumulator from_order(const Accumulator& floats) { return floats; }
};

template <typename Machine>
struct Lanes<Machine, Half> : FloatLanes<Machine> {
  using typename FloatLanes<Machine>::Bytes;
  using typename FloatLanes<Machine>::Accumulator;
  [[gnu::always_inline]] static Accumulator widen(const Bytes& bytes) { return Machine::widen_half(bytes); }
  [[gnu::always_inline]] static Bytes narrow(const Accumulator& sum) {
    return Machine::narrow_half({with_one_nan(sum.first), with_one_nan(sum.second)});
  }
};

// The elements at even places are the lower halves of words of 32 bits, those at odd places the upper ones: no
// shuffles.
template <typename Machine>
struct Lanes<Machine, BrainHalf> : FloatLanes<Machine> {
  using typename FloatLanes<Machine>::Bytes;
  using typename FloatLanes<Machine>::Accumulator;
  using Words = Vector<uint32_t, Machine::kWidth>;
  using Floats = Vector<float, Machine::kWidth>;

  [[gnu::always_inline]] static Accumulator widen(const Bytes& bytes) {
    const Words words = as<Words>(bytes);
    return {as<Floats>(words << 16), as<Floats>(words & 0xffff0000u)};
  }
  [[gnu::always_inline]] static Bytes narrow(const Accumulator& sum) {
    return as<Bytes>(rounded(sum.first) >> 16 | (rounded(sum.second) & 0xffff0000u));
  }
  [[gnu::always_inline]] static Accumulator to_order(const Accumulator& floats) {
    float ordered[2 * kFloats];
    for (size_t i = 0; i < kFloats; ++i) ordered[2 * i] = floats.first[i], ordered[2 * i + 1] = floats.second[i];
    return load<Accumulator>(ordered);
  }
  [[gnu::always_inline]] static Accumulator from_order(const Accumulator& floats) {
    float ordered[2 * kFloats];
    store(ordered, floats);
    Accumulator split;
    for (size_t i = 0; i < kFloats; ++i) split.first[i] = ordered[2 * i], split.second[i] = ordered[2 * i + 1];
    return split;
  }

 private:
  static constexpr size_t kFloats = Machine::kWidth / sizeof(float);

  // To nearest even in the upper half: carries into the exponent are as they should be, up to infinity.
  [[gnu::always_inline]] static Words rounded(const Floats& floats) {
    const Words words = as<Words>(floats);
    const Words up = words + (words >> 16 & 1u) + 0x7fffu;
    return floats == floats ? up : Words{} + kQuietNaN;
  }
};

}  // namespace
}  // namespace banyan::element::internal
