// The types of a buffer's elements, and the operations that reduce several elements to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace banyan::element {

// In the order of the C interface. float16 is IEEE binary16; bfloat16 is the upper half of a float32.
enum class DataType : uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64
};
inline constexpr size_t kDataTypes = 12;

// avg is a sum that is divided once, at the end, by whoever holds all of it; premul_sum is a sum of what each rank has
// scaled before it contributed; band, bor and bxor are and, or and exclusive or of the bits of integers. reduce.h says
// what they do for every type.
enum class ReduceOp : uint8_t { sum, prod, min, max, avg, premul_sum, band, bor, bxor };
inline constexpr size_t kReduceOps = 9;

// Read the names that to_string gives and those of other libraries: "half", "fp16", "bf16", "float", "fp32", "double",
// "fp64"; "mulsum" (nccl-tests) and "product". Both throw Error{invalid_input} that lists the names of to_string.
DataType parse_data_type(std::string_view text);
ReduceOp parse_reduce_op(std::string_view text);
std::string_view to_string(DataType type);
std::string_view to_string(ReduceOp op);

constexpr size_t size_of(DataType type) {
  constexpr uint8_t kSizes[kDataTypes] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<size_t>(type)];
}
constexpr bool is_floating(DataType type) { return type >= DataType::float16; }
constexpr bool is_bitwise(ReduceOp op) { return op >= ReduceOp::band; }

// True if `op` can reduce elements of `type`: bitwise operations take integers only, all others take all types.
constexpr bool is_reducible(DataType type, ReduceOp op) { return !is_bitwise(op) || !is_floating(type); }
// For callers that take both from a stranger, before anything is done with them: in reduce() a pair that is not
// is_reducible() is our own bug. Throws Error{invalid_input}: "band is for integers, not float32; give the same bits as
// uint32".
void expect_reducible(DataType type, ReduceOp op);

// One element as a number, and back; `element` may be unaligned. For tests, samples and reports: kernels are in
// reduce.h. A 64-bit integer beyond 2^53 is rounded. Writing rounds to the nearest value of a float type (ties to even,
// beyond the largest to infinity); an integer must hold the number exactly, as CHECK demands.
double read_element(DataType type, const std::byte* element);
void write_element(DataType type, std::byte* element, double value);

// result[i] = left[i] op right[i] for `count` elements of `type`, any alignment: reduce() of two sources. `result` may
// be `left` or `right`, and overlaps nothing otherwise. avg only sums here. The pair must be is_reducible().
struct Reduction {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;

  void operator()(std::byte* result, const std::byte* left, const std::byte* right, size_t count) const;
};

}  // namespace banyan::element
