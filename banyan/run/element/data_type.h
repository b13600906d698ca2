// What the elements of a buffer are and how two of them become one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace banyan {

enum class DataType : uint8_t { int32, float32, float64 };
enum class ReduceOp : uint8_t { sum, min, max };

// Both throw Error{invalid_input} with the known names: "float32", "sum".
DataType parse_data_type(std::string_view text);
ReduceOp parse_reduce_op(std::string_view text);
std::string_view to_string(DataType type);
std::string_view to_string(ReduceOp op);
size_t size_of(DataType type);

// result[i] = left[i] op right[i] for `count` elements of `type`; any alignment. `result` may be `left`, and overlaps
// nothing otherwise. int32 sums wrap round. min and max keep `left` when the two are equal or `right` is not a number,
// so equal inputs in equal order give equal bits.
struct Reduction {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;

  void operator()(std::byte* result, const std::byte* left, const std::byte* right, size_t count) const;
};

}  // namespace banyan
