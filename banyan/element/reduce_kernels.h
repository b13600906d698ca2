// Inside of banyan/element: one build of the loops behind reduce.h, as a table of functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "banyan/element/data_type.h"

namespace banyan::element::internal {

struct ReduceJob {
  std::byte* result;
  std::byte* second;  // or null
  const std::byte* const* sources;
  size_t source_count;  // at least 2, or of avg at least 1
  size_t count;         // of elements; of a bitwise operation, which knows none, of bytes
  uint32_t divisor;     // of avg
  bool streaming;
};

struct Kernels {
  using Reduce = void (*)(const ReduceJob& job);
  using Scale = void (*)(std::byte* to, const std::byte* from, size_t count, double factor);
  using Copy = void (*)(std::byte* to, const std::byte* from, size_t bytes);
  using Widen = void (*)(float* to, const std::byte* from, size_t count);
  using Narrow = void (*)(std::byte* to, const float* from, size_t count, uint32_t divisor);

  static constexpr size_t kOps = 5;         // sum to avg
  static constexpr size_t kBitwiseOps = 3;  // band to bxor

  Reduce reduce[kOps][kDataTypes];
  Reduce reduce_bits[kBitwiseOps];
  Scale scale[kDataTypes];  // an integer's factor is whole and at most 2^53
  Copy stream;
  Widen widen[2];  // of float16 and bfloat16
  Narrow narrow[2];
};

// Those of another processor are declared everywhere and defined where they can be compiled.
const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

// Those of active_isa().
const Kernels& active_kernels();

}  // namespace banyan::element::internal
