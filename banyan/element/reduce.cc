#include "banyan/element/reduce.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/element/reduce_kernels.h"

namespace banyan::element {
namespace {

constexpr double kMostWholeFactor = 9007199254740992.0;  // 2^53

void copy_to_both(const ReduceTask& task, std::byte* result, std::byte* second, const std::byte* source, size_t count) {
  const size_t bytes = count * size_of(task.type);
  if (second != nullptr) copy(second, source, bytes, false);
  if (result != source) copy(result, source, bytes, task.streaming);
}

// The kernel for `op`, and how many of what it takes for elements there are.
struct Choice {
  internal::Kernels::Reduce reduce;
  size_t count;
};

Choice kernel_for(DataType type, ReduceOp op, size_t count) {
  const internal::Kernels& kernels = internal::active_kernels();
  if (is_bitwise(op)) {
    const auto place = static_cast<size_t>(op) - static_cast<size_t>(ReduceOp::band);
    return {.reduce = kernels.reduce_bits[place], .count = count * size_of(type)};
  }
  return {.reduce = kernels.reduce[static_cast<size_t>(op)][static_cast<size_t>(type)], .count = count};
}

size_t half_index(DataType type) {
  CHECK(type == DataType::float16 || type == DataType::bfloat16) << to_string(type);
  return type == DataType::float16 ? 0 : 1;
}

}  // namespace

void reduce(const ReduceTask& task, std::byte* result, std::byte* second, std::span<const std::byte* const> sources,
            size_t count) {
  CHECK(!sources.empty() && task.divisor > 0) << "sources=" << sources.size() << " divisor=" << task.divisor;
  CHECK(is_reducible(task.type, task.op)) << to_string(task.op) << " of " << to_string(task.type);
  ReduceOp op = task.op;
  if (op == ReduceOp::premul_sum || (op == ReduceOp::avg && task.divisor == 1)) op = ReduceOp::sum;
  if (sources.size() == 1 && op != ReduceOp::avg) return copy_to_both(task, result, second, sources[0], count);
  const Choice kernel = kernel_for(task.type, op, count);
  const internal::ReduceJob job = {.result = result,
                                   .second = second,
                                   .sources = sources.data(),
                                   .source_count = sources.size(),
                                   .count = kernel.count,
                                   .divisor = task.divisor,
                                   .streaming = task.streaming};
  kernel.reduce(job);
}

void scale(DataType type, std::byte* to, const std::byte* from, size_t count, double factor) {
  if (!is_floating(type) && !(std::trunc(factor) == factor && std::abs(factor) <= kMostWholeFactor)) {
    throw invalid("cannot multiply " + std::string(to_string(type)) + " by " + std::to_string(factor) +
                  ": the factor of an integer is a whole number of at most 2^53");
  }
  internal::active_kernels().scale[static_cast<size_t>(type)](to, from, count, factor);
}

void widen(DataType type, float* to, const std::byte* from, size_t count) {
  internal::active_kernels().widen[half_index(type)](to, from, count);
}

void narrow(DataType type, std::byte* to, const float* from, size_t count, uint32_t divisor) {
  CHECK(divisor > 0);
  internal::active_kernels().narrow[half_index(type)](to, from, count, divisor);
}

void copy(std::byte* to, const std::byte* from, size_t bytes, bool streaming) {
  if (streaming) {
    internal::active_kernels().stream(to, from, bytes);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

void Reduction::operator()(std::byte* result, const std::byte* left, const std::byte* right, size_t count) const {
  const std::array<const std::byte*, 2> sources = {left, right};
  reduce({.type = type, .op = op}, result, nullptr, sources, count);
}

}  // namespace banyan::element
