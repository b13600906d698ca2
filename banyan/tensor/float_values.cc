#include "banyan/tensor/float_values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "banyan/base/check.h"
#include "banyan/element/reduce.h"

namespace banyan::tensor {
namespace {

using element::DataType;

// static_cast of a double beyond the range of float is undefined.
float narrowed(double value) {
  constexpr double kGreatest = std::numeric_limits<float>::max();
  if (std::fabs(value) <= kGreatest || std::isnan(value)) return static_cast<float>(value);
  return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(std::copysign(1.0, value)));
}

}  // namespace

void read_floats(DataType type, std::span<const std::byte> elements, std::span<float> values) {
  CHECK_EQ(elements.size(), values.size() * size_of(type));
  switch (type) {
    case DataType::float32:
      std::memcpy(values.data(), elements.data(), values.size_bytes());
      return;
    case DataType::float16:
    case DataType::bfloat16:
      element::widen(type, values.data(), elements.data(), values.size());
      return;
    case DataType::float64:
      for (size_t i = 0; i < values.size(); ++i) {
        double value = 0;
        std::memcpy(&value, elements.data() + i * sizeof value, sizeof value);
        values[i] = narrowed(value);
      }
      return;
    default:
      CHECK(false) << to_string(type) << " is no type of floats";
  }
}

void write_floats(DataType type, std::span<const float> values, std::span<std::byte> elements) {
  CHECK_EQ(elements.size(), values.size() * size_of(type));
  switch (type) {
    case DataType::float32:
      std::memcpy(elements.data(), values.data(), values.size_bytes());
      return;
    case DataType::float16:
    case DataType::bfloat16:
      element::narrow(type, elements.data(), values.data(), values.size());
      return;
    case DataType::float64:
      for (size_t i = 0; i < values.size(); ++i) {
        const double value = values[i];
        std::memcpy(elements.data() + i * sizeof value, &value, sizeof value);
      }
      return;
    default:
      CHECK(false) << to_string(type) << " is no type of floats";
  }
}

}  // namespace banyan::tensor
