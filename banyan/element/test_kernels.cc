#include "banyan/element/test_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace banyan::element {
namespace {

template <typename T>
T one_nan(T value) {
  if (!std::isnan(value)) return value;
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<float>(0x7fc00000u);
  else
    return std::bit_cast<double>(uint64_t{0x7ff8} << 48);
}

template <typename T>
T apply(ReduceOp op, T left, T right) {
  if (op == ReduceOp::min || op == ReduceOp::max) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(left)) return right;
      if (std::isnan(right)) return left;
    }
    if (op == ReduceOp::min) return right < left ? right : left;
    return right > left ? right : left;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::band) return static_cast<T>(left & right);
    if (op == ReduceOp::bor) return static_cast<T>(left | right);
    if (op == ReduceOp::bxor) return static_cast<T>(left ^ right);
  }
  if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::prod ? left * right : left + right;
  } else {
    const auto a = static_cast<uint64_t>(left), b = static_cast<uint64_t>(right);
    return static_cast<T>(op == ReduceOp::prod ? a * b : a + b);
  }
}

template <typename T>
T fold(ReduceOp op, uint32_t divisor, const std::vector<T>& values) {
  T result = values[0];
  for (size_t k = 1; k < values.size(); ++k) result = apply(op, result, values[k]);
  if (op != ReduceOp::avg || divisor == 1) return result;
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return static_cast<T>(static_cast<int64_t>(result) / static_cast<int64_t>(divisor));
  } else {
    return static_cast<T>(result / static_cast<T>(divisor));
  }
}

template <typename T>
void reference_as(const ReduceTask& task, std::byte* result, const std::vector<const std::byte*>& sources) {
  std::vector<T> values(sources.size());
  for (size_t k = 0; k < sources.size(); ++k) std::memcpy(&values[k], sources[k], sizeof(T));
  T value;
  if constexpr (std::is_integral_v<T> && sizeof(T) < 4) {
    // Divisors may be larger than the type, so divide as wider ones.
    std::vector<T> sum = {fold(task.op == ReduceOp::avg ? ReduceOp::sum : task.op, 1, values)};
    value = task.op == ReduceOp::avg ? static_cast<T>(static_cast<int64_t>(sum[0]) / task.divisor) : sum[0];
  } else {
    value = fold(task.op, task.divisor, values);
    if constexpr (std::is_floating_point_v<T>) value = one_nan(value);
  }
  std::memcpy(result, &value, sizeof value);
}

}  // namespace

double decode(Format format, uint32_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> format.fraction_bits & ((1u << format.exponent_bits) - 1));
  const double sign = bits >> 15 == 0 ? 1 : -1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - format.fraction_bits);
  return sign * std::ldexp(fraction + (1u << format.fraction_bits), exponent - bias - format.fraction_bits);
}

uint32_t encode(Format format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
  if (std::isnan(value)) return infinity | 1u << (format.fraction_bits - 1);
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isinf(value)) return sign | infinity;
  // In units of the last place, where nearbyint rounds to even.
  const int exponent = std::max(value == 0 ? -10'000 : std::ilogb(value), 1 - bias);
  const auto units =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(std::abs(value), format.fraction_bits - exponent)));
  // A fraction that is full carries into the exponent, and the leading one of a normal number counts as one of it.
  const uint32_t bits = (static_cast<uint32_t>(exponent + bias - 1) << format.fraction_bits) + units;
  return sign | std::min(bits, infinity);
}

void reference(const ReduceTask& task, std::byte* result, const std::vector<const std::byte*>& sources) {
  const size_t size = size_of(task.type);
  if (sources.size() == 1 && (task.op != ReduceOp::avg || task.divisor == 1)) {
    std::memcpy(result, sources[0], size);
    return;
  }
  switch (task.type) {
    case DataType::int8:
      return reference_as<int8_t>(task, result, sources);
    case DataType::int16:
      return reference_as<int16_t>(task, result, sources);
    case DataType::int32:
      return reference_as<int32_t>(task, result, sources);
    case DataType::int64:
      return reference_as<int64_t>(task, result, sources);
    case DataType::uint8:
      return reference_as<uint8_t>(task, result, sources);
    case DataType::uint16:
      return reference_as<uint16_t>(task, result, sources);
    case DataType::uint32:
      return reference_as<uint32_t>(task, result, sources);
    case DataType::uint64:
      return reference_as<uint64_t>(task, result, sources);
    case DataType::float32:
      return reference_as<float>(task, result, sources);
    case DataType::float64:
      return reference_as<double>(task, result, sources);
    case DataType::float16:
    case DataType::bfloat16:
      break;
  }
  std::vector<float> values(sources.size());
  for (size_t k = 0; k < sources.size(); ++k) {
    uint16_t bits = 0;
    std::memcpy(&bits, sources[k], sizeof bits);
    values[k] = static_cast<float>(decode(format_of(task.type), bits));
  }
  const auto bits =
      static_cast<uint16_t>(encode(format_of(task.type), static_cast<double>(fold(task.op, task.divisor, values))));
  std::memcpy(result, &bits, sizeof bits);
}

std::vector<ReduceOp> ops_of(DataType type) {
  std::vector<ReduceOp> ops;
  for (size_t i = 0; i < kReduceOps; ++i) {
    if (const auto op = static_cast<ReduceOp>(i); is_reducible(type, op)) ops.push_back(op);
  }
  return ops;
}

std::vector<std::byte> random_elements(DataType type, size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count * size_of(type));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (!is_floating(type)) return bytes;
  constexpr double kSpecial[] = {0.0,      -0.0,  1.0,  -1.0, 3e-8,     -6e-8,    65504.0,
                                 -65504.0, 1e-40, 1e39, NAN,  INFINITY, -INFINITY};
  for (size_t i = 0; i < count; ++i) {
    if (random() % 4 == 0)
      write_element(type, bytes.data() + i * size_of(type), kSpecial[random() % std::size(kSpecial)]);
  }
  return bytes;
}

std::string name_of(const ReduceTask& task) {
  return std::string(to_string(task.type)) + " " + std::string(to_string(task.op)) + " / " +
         std::to_string(task.divisor) + (task.streaming ? " streaming" : "");
}

void WithIsa::use_or_skip(Isa isa) {
  const std::vector<Isa> available = available_isas();
  if (std::find(available.begin(), available.end(), isa) == available.end()) {
    GTEST_SKIP() << "this machine has no " << to_string(isa);
  }
  before_ = active_isa();
  use_isa(isa);
}

}  // namespace banyan::element
