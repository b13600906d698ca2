// Inside of banyan/codec: one build of the loops behind codec.h and low_rank.h, as a table of functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "banyan/codec/codec.h"

namespace banyan::codec::internal {

struct DecodeTask {
  const std::byte* coded;
  float* values;
  size_t count;
  float factor;
  bool adds;
};

// Rows of a matrix M, with some columns of P, a row of which is `stride` values after the last, and as many rows of Q^T
// (q_rows), of `columns` values each.
struct LowRankPart {
  size_t rows, columns, stride;
};

// The loops for one number of columns of P. No matrix overlaps another.
struct LowRankKernels {
  void (*multiply)(const LowRankPart& part, const float* m, const float* q_rows, float* p);        // p = m q
  void (*add_transposed)(const LowRankPart& part, const float* m, const float* p, float* q_rows);  // q += m^T p
  // m = scale * p q^T; m += it.
  void (*expand[2])(const LowRankPart& part, const float* p, const float* q_rows, float scale, float* m);
};
constexpr size_t kLowRankPanel = 4;  // the largest number

struct Kernels {
  using Encode = void (*)(const EncodeTask& task, std::byte* coded);
  using Decode = void (*)(const DecodeTask& task);

  Encode encode[kValueCodes][2];  // to nearest; stochastic, or null
  Decode decode[kValueCodes];
  LowRankKernels low_rank[kLowRankPanel];  // by the number, from 1
};

// Those of another processor are declared everywhere and defined where they can be compiled.
const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
// The kernels of element::active_isa().
const Kernels& active_kernels();

}  // namespace banyan::codec::internal
