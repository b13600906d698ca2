// Inside of banyan/element: vectors of elements, and what the operations do to them. For reduce_loops.h. In an unnamed
// namespace for the reason that vectors.h tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "banyan/element/vectors.h"

namespace banyan::element::internal {
namespace {

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

// Bitwise operations see bytes, whatever these are a part of.
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

// The divisor of a sum. For floats a power of two is multiplied by its inverse: the same bits, sooner.
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

// Elements of type T and their accumulators. Most types are accumulated as they are:
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
