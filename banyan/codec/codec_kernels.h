// Inside of banyan/codec: one build of the loops behind codec.h, as a table of functions.
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

struct Kernels {
  using Encode = void (*)(const EncodeTask& task, std::byte* coded);
  using Decode = void (*)(const DecodeTask& task);

  Encode encode[kValueCodes][2];  // to nearest; stochastic, or null
  Decode decode[kValueCodes];
};

// Those of another processor are declared everywhere and defined where they can be compiled.
const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace banyan::codec::internal
