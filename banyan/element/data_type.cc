#include "banyan/element/data_type.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/element/reduce.h"

namespace banyan::element {
namespace {

// In the order of their enumerators.
constexpr std::array<std::string_view, kDataTypes> kTypeNames = {"int8",    "int16",    "int32",   "int64",
                                                                 "uint8",   "uint16",   "uint32",  "uint64",
                                                                 "float16", "bfloat16", "float32", "float64"};
constexpr std::array<std::string_view, kReduceOps> kOpNames = {"sum",        "prod", "min", "max", "avg",
                                                               "premul_sum", "band", "bor", "bxor"};

// What nccl-tests, PyTorch and people call them.
template <typename T>
using Alias = std::pair<std::string_view, T>;
constexpr std::array<Alias<DataType>, 8> kTypeAliases = {{{"half", DataType::float16},
                                                          {"fp16", DataType::float16},
                                                          {"bf16", DataType::bfloat16},
                                                          {"float", DataType::float32},
                                                          {"fp32", DataType::float32},
                                                          {"double", DataType::float64},
                                                          {"fp64", DataType::float64},
                                                          {"int", DataType::int32}}};
constexpr std::array<Alias<ReduceOp>, 2> kOpAliases = {{{"mulsum", ReduceOp::premul_sum}, {"product", ReduceOp::prod}}};

template <typename T, size_t N, size_t M>
T parse_name(std::string_view text, const std::string& what, const std::array<std::string_view, N>& names,
             const std::array<Alias<T>, M>& aliases) {
  for (const auto& [name, meant] : aliases) {
    if (name == text) return meant;
  }
  NearestName nearest(text);
  std::string known;
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<T>(i);
    nearest.offer(names[i]);
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw invalid("unknown " + what + " '" + std::string(text.substr(0, 60)) + "'" + nearest.hint() + "; known are " +
                known);
}

template <typename Visit>
void with_type(DataType type, Visit visit) {
  switch (type) {
    case DataType::int8:
      return visit(int8_t{});
    case DataType::int16:
      return visit(int16_t{});
    case DataType::int32:
      return visit(int32_t{});
    case DataType::int64:
      return visit(int64_t{});
    case DataType::uint8:
      return visit(uint8_t{});
    case DataType::uint16:
      return visit(uint16_t{});
    case DataType::uint32:
      return visit(uint32_t{});
    case DataType::uint64:
      return visit(uint64_t{});
    case DataType::float32:
      return visit(float{});
    case DataType::float64:
      return visit(double{});
    case DataType::float16:
    case DataType::bfloat16:
      break;
  }
  CHECK(false) << "data type " << static_cast<int>(type);
}

bool is_half(DataType type) { return type == DataType::float16 || type == DataType::bfloat16; }

// A double as a float from which rounding to 16 bits gives what rounding at once would: where the float is not exact,
// its last bit is set, so that it lies on the right side of every half-way point.
float rounded_to_odd(double value) {
  float rounded = static_cast<float>(value);
  if (std::isinf(rounded) || static_cast<double>(rounded) == value || std::isnan(value)) return rounded;
  if (std::abs(static_cast<double>(rounded)) > std::abs(value)) rounded = std::nextafter(rounded, 0.0f);
  uint32_t bits = 0;
  std::memcpy(&bits, &rounded, sizeof bits);
  bits |= 1;
  std::memcpy(&rounded, &bits, sizeof bits);
  return rounded;
}

}  // namespace

DataType parse_data_type(std::string_view text) { return parse_name(text, "data type", kTypeNames, kTypeAliases); }

ReduceOp parse_reduce_op(std::string_view text) { return parse_name(text, "reduction", kOpNames, kOpAliases); }

std::string_view to_string(DataType type) { return kTypeNames[static_cast<size_t>(type)]; }

std::string_view to_string(ReduceOp op) { return kOpNames[static_cast<size_t>(op)]; }

void expect_reducible(DataType type, ReduceOp op) {
  if (is_reducible(type, op)) return;
  throw invalid(std::string(to_string(op)) + " is for integers, not " + std::string(to_string(type)) +
                "; give the same bits as uint" + std::to_string(8 * size_of(type)));
}

double read_element(DataType type, const std::byte* element) {
  if (is_half(type)) {
    float value = 0;
    widen(type, &value, element, 1);
    return static_cast<double>(value);
  }
  double result = 0;
  with_type(type, [&](auto value) {
    std::memcpy(&value, element, sizeof value);
    result = static_cast<double>(value);
  });
  return result;
}

void write_element(DataType type, std::byte* element, double value) {
  if (is_half(type)) {
    const float rounded = rounded_to_odd(value);
    return narrow(type, element, &rounded, 1);
  }
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      // The first number above all of T's is a power of two, and exact.
      const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
      CHECK(std::trunc(value) == value && value < above && value >= (std::is_signed_v<T> ? -above : 0.0))
          << value << " is no " << to_string(type);
    }
    const T exact = static_cast<T>(value);
    std::memcpy(element, &exact, sizeof exact);
  });
}

}  // namespace banyan::element
