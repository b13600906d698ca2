// Averages of gradients as DistributedDataParallel makes them by itself: the bits are the same.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <span>

#include "bindings/torch/buffers.h"
#include "bindings/torch/futures.h"
#include "bindings/torch/process_group.h"

namespace banyan::pytorch {

// Collective: an allreduce of one tensor, in place.
c10::intrusive_ptr<c10d::Work> all_reduce(ProcessGroupBanyan& group, const at::Tensor& tensor,
                                          c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM);

// Collective. Averages a tensor of any type in place, a sparse one, too.
TensorFuture plain_average(ProcessGroupBanyan& group, const at::Tensor& buffer);

// The values of a plain float32 tensor.
inline std::span<float> floats_of(const at::Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(tensor.scalar_type() == at::kFloat);
  return {reinterpret_cast<float*>(mutable_bytes_of(tensor)), static_cast<size_t>(tensor.numel())};
}

}  // namespace banyan::pytorch
