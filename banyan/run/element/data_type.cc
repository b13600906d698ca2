#include "banyan/run/element/data_type.h"

#include <array>
#include <cstring>
#include <string>
#include <type_traits>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"

namespace banyan {
namespace {

// In the order of their enumerators.
constexpr std::array<std::string_view, 3> kTypeNames = {"int32", "float32", "float64"};
constexpr std::array<std::string_view, 3> kOpNames = {"sum", "min", "max"};

template <size_t N>
size_t parse_name(std::string_view text, const std::string& what, const std::array<std::string_view, N>& names) {
  NearestName nearest(text);
  std::string known;
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == text) return i;
    nearest.offer(names[i]);
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw Error(ErrorCode::invalid_input, "unknown " + what + " '" + std::string(text.substr(0, 60)) + "'" +
                                            nearest.hint() + "; known are " + known);
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Sum {
  template <typename T>
  T operator()(T left, T right) const {
    if constexpr (std::is_integral_v<T>) {
      using Wrapping = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Wrapping>(left) + static_cast<Wrapping>(right));
    } else {
      return left + right;
    }
  }
};
struct Min {
  template <typename T>
  T operator()(T left, T right) const {
    return right < left ? right : left;
  }
};
struct Max {
  template <typename T>
  T operator()(T left, T right) const {
    return left < right ? right : left;
  }
};

// Two loops, because the compiler vectorises neither when the result may be the left operand: it would have to prove at
// run time that they do not overlap, and they do.
template <typename T, typename Op>
void combine(std::byte* __restrict result, const std::byte* __restrict left, const std::byte* __restrict right,
             size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const T value = Op()(load<T>(left + i * sizeof(T)), load<T>(right + i * sizeof(T)));
    std::memcpy(result + i * sizeof(T), &value, sizeof value);
  }
}

template <typename T, typename Op>
void accumulate(std::byte* __restrict result, const std::byte* __restrict right, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const T value = Op()(load<T>(result + i * sizeof(T)), load<T>(right + i * sizeof(T)));
    std::memcpy(result + i * sizeof(T), &value, sizeof value);
  }
}

template <typename T, typename Op>
void reduce(std::byte* result, const std::byte* left, const std::byte* right, size_t count) {
  if (result == left) {
    accumulate<T, Op>(result, right, count);
  } else {
    combine<T, Op>(result, left, right, count);
  }
}

template <typename T>
void reduce_by(ReduceOp op, std::byte* result, const std::byte* left, const std::byte* right, size_t count) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<T, Sum>(result, left, right, count);
    case ReduceOp::min:
      return reduce<T, Min>(result, left, right, count);
    case ReduceOp::max:
      return reduce<T, Max>(result, left, right, count);
  }
  CHECK(false) << "op " << static_cast<int>(op);
}

}  // namespace

DataType parse_data_type(std::string_view text) {
  return static_cast<DataType>(parse_name(text, "data type", kTypeNames));
}

ReduceOp parse_reduce_op(std::string_view text) {
  return static_cast<ReduceOp>(parse_name(text, "reduction", kOpNames));
}

std::string_view to_string(DataType type) { return kTypeNames[static_cast<size_t>(type)]; }

std::string_view to_string(ReduceOp op) { return kOpNames[static_cast<size_t>(op)]; }

size_t size_of(DataType type) { return type == DataType::float64 ? 8 : 4; }

void Reduction::operator()(std::byte* result, const std::byte* left, const std::byte* right, size_t count) const {
  switch (type) {
    case DataType::int32:
      return reduce_by<int32_t>(op, result, left, right, count);
    case DataType::float32:
      return reduce_by<float>(op, result, left, right, count);
    case DataType::float64:
      return reduce_by<double>(op, result, left, right, count);
  }
  CHECK(false) << "data type " << static_cast<int>(type);
}

}  // namespace banyan
