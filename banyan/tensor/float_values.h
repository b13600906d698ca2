// Elements of any type of floats as float32, which codecs take, and back.
#pragma once

#include <cstddef>
#include <span>

#include "banyan/element/data_type.h"

namespace banyan::tensor {

// `elements` are as many of the type as there are values; any alignment. float64 beyond float32's range becomes
// infinite. Back, values are rounded to the nearest of the type (ties to even, beyond the largest to infinity). Any
// thread; O(values).
void read_floats(element::DataType type, std::span<const std::byte> elements, std::span<float> values);
void write_floats(element::DataType type, std::span<const float> values, std::span<std::byte> elements);

}  // namespace banyan::tensor
