// Tensors as buffers: which of our types and operations stand for those of PyTorch.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "banyan/element/data_type.h"
#include "bindings/torch/torch_version.h"

namespace banyan::pytorch {

// The arguments of a reduction. Its `count` is that of a tensor's elements times `elements_each`.
struct ElementReduction {
  element::DataType type = element::DataType::float32;
  element::ReduceOp op = element::ReduceOp::sum;
  uint64_t elements_each = 1;  // 2 of complex numbers, which are two floats each
};

// Throws c10::Error (RuntimeError) for what cannot be reduced so. Booleans: sum, max and bor are "any", prod, min and
// band are "all", bxor is "an odd number of them".
ElementReduction reduction_of(at::ScalarType type, const c10d::ReduceOp& op);

// For what is only moved: the type, where it is one of ours, or bytes.
struct ElementMove {
  element::DataType type = element::DataType::uint8;
  uint64_t elements_each = 1;
};
ElementMove move_of(const at::Tensor& tensor);

}  // namespace banyan::pytorch
