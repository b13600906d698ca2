// The operands of calls in the C++ interface: elements, contiguous ranges of them, memory shared between the ranks of a
// host, codes, and reductions. communicator.h includes it.
//
// Buffers are std::vector, std::array, std::span or SharedBuffer. Their elements are integers of 1 to 8 bytes, float,
// double, Float16 or BFloat16.
#pragma once

#include <banyan/cxx20.h>
#ifdef BANYAN_CXX20

#include <banyan/banyan.h>
#include <banyan/error.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>

namespace banyan {
inline namespace v0 {

// ---- Elements ----

// 16-bit floats by their bits; they are added in float.
struct Float16 {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};

template <typename T>
concept Element = (std::integral<T> && !std::same_as<T, bool>) || std::same_as<T, float> || std::same_as<T, double> ||
                  std::same_as<T, Float16> || std::same_as<T, BFloat16>;

template <Element T>
constexpr banyan_type_t type_of() {
  if constexpr (std::is_same_v<T, float>) return BANYAN_FLOAT32;
  if constexpr (std::is_same_v<T, double>) return BANYAN_FLOAT64;
  if constexpr (std::is_same_v<T, Float16>) return BANYAN_FLOAT16;
  if constexpr (std::is_same_v<T, BFloat16>) return BANYAN_BFLOAT16;
  constexpr bool is_signed = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 1) return is_signed ? BANYAN_INT8 : BANYAN_UINT8;
  if constexpr (sizeof(T) == 2) return is_signed ? BANYAN_INT16 : BANYAN_UINT16;
  if constexpr (sizeof(T) == 4) return is_signed ? BANYAN_INT32 : BANYAN_UINT32;
  return is_signed ? BANYAN_INT64 : BANYAN_UINT64;
}

// A range that can be sent, and a range that can be received into.
template <typename R>
concept InBuffer = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && std::ranges::borrowed_range<R> &&
    Element<std::remove_cv_t<std::ranges::range_value_t<R>>>;
template <typename R>
concept OutBuffer = InBuffer<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
template <typename A, typename B>
concept SameElements = std::same_as<std::ranges::range_value_t<A>, std::ranges::range_value_t<B>>;

// Memory that ranks of this host read and write directly, which spares a copy. A range; begins as zeros.
template <Element T>
class SharedBuffer {
 public:
  explicit SharedBuffer(std::size_t size) : size_(size) {
    void* memory = nullptr;
    check(banyan_mem_alloc(&memory, size * sizeof(T)));
    elements_.reset(static_cast<T*>(memory));
    for (T& element : *this) element = T{};
  }

  T* data() const { return elements_.get(); }
  std::size_t size() const { return size_; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  T& operator[](std::size_t i) const { return data()[i]; }

 private:
  struct Free {
    void operator()(T* memory) const { banyan_mem_free(memory); }
  };
  std::unique_ptr<T, Free> elements_;
  std::size_t size_;
};

// ---- Codes ----

// A buffer of float that goes between hosts in a code, such as "int8" (Codes in banyan.h). Pass it in place of the
// buffer to a call that reduces by a sum or an average, or not at all.
//
//   world.all_reduce(banyan::Coded(gradients, "int8"), world.feedback_sum(residual, banyan::ReduceOp::avg));
//
// It is a view: the values must outlive it. The code of a call with two buffers is that of the first.
template <typename T>
requires std::same_as < std::remove_cv_t<T>,
float > class Coded {
 public:
  Coded(std::span<T> values, const char* codec) : values_(values) { check(banyan_coded_type(codec, &type_)); }
  template <std::ranges::contiguous_range R>
  Coded(R& values, const char* codec) : Coded(std::span(values), codec) {}

  T* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }
  T* begin() const { return data(); }
  T* end() const { return data() + size(); }
  banyan_type_t type() const { return type_; }

 private:
  std::span<T> values_;
  banyan_type_t type_{};
};
template <std::ranges::contiguous_range R>
Coded(R& values, const char* codec) -> Coded<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

// The losses of one buffer's codes on this rank, to be added the next time; zero at first. Must outlive the calls that
// use it.
class Residual {
 public:
  explicit Residual(std::size_t size) { check(banyan_residual_create(&handle_, size)); }
  ~Residual() { banyan_residual_destroy(handle_); }
  Residual(const Residual&) = delete;
  Residual& operator=(const Residual&) = delete;
  // Its values between two calls; valid until the next one.
  std::span<float> values() const {
    float* values = nullptr;
    std::size_t size = 0;
    check(banyan_residual_values(handle_, &values, &size));
    return {values, size};
  }
  banyan_residual_t handle() const { return handle_; }

 private:
  banyan_residual_t handle_ = nullptr;
};

// ---- Reductions ----

enum class ReduceOp {
  sum = BANYAN_SUM,
  prod = BANYAN_PROD,
  min = BANYAN_MIN,
  max = BANYAN_MAX,
  avg = BANYAN_AVG,
  band = BANYAN_BAND,
  bor = BANYAN_BOR,
  bxor = BANYAN_BXOR
};

// A reduction of the program's own. Belongs to a communicator and ends before it.
class OwnReduction {
 public:
  ~OwnReduction() { banyan_op_destroy(op_, comm_); }
  OwnReduction(const OwnReduction&) = delete;
  OwnReduction& operator=(const OwnReduction&) = delete;
  banyan_op_t op() const { return op_; }

 protected:
  template <typename Create>
  OwnReduction(banyan_comm_t comm, const Create& create) : comm_(comm) {
    check(create(&op_));
  }

 private:
  banyan_comm_t comm_;
  banyan_op_t op_ = 0;
};

// A sum to which this rank contributes its elements times a factor.
class ScaledSum : public OwnReduction {
 public:
  ScaledSum(banyan_comm_t comm, double factor)
      : OwnReduction(comm, [&](banyan_op_t* op) { return banyan_op_create_premul_sum(op, factor, comm); }) {}
};

// A sum or an average in a code that adds a residual's values first, and keeps in it what is lost.
class FeedbackSum : public OwnReduction {
 public:
  FeedbackSum(banyan_comm_t comm, const Residual& residual, ReduceOp sum)
      : OwnReduction(comm, [&](banyan_op_t* op) {
          return banyan_op_create_feedback(op, static_cast<banyan_op_kind_t>(sum), residual.handle(), comm);
        }) {}
};

// A ReduceOp, a ScaledSum or a FeedbackSum, as calls take it.
class Reduction {
 public:
  Reduction(ReduceOp op) : op_(static_cast<banyan_op_t>(op)) {}
  Reduction(const OwnReduction& own) : op_(own.op()) {}
  banyan_op_t op() const { return op_; }

 private:
  banyan_op_t op_;
};

}  // namespace v0
}  // namespace banyan

template <typename T>
inline constexpr bool std::ranges::enable_borrowed_range<banyan::Coded<T>> = true;

#endif  // BANYAN_CXX20
