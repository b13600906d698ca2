#include "bindings/torch/task_buffers.h"

#include <ATen/core/grad_mode.h>

#include "bindings/torch/buffers.h"

namespace banyan::pytorch {

at::Tensor read(const at::Tensor& tensor, BanyanWork::Task& task) {
  if (tensor.is_contiguous()) return tensor;
  const at::NoGradGuard no_grad;
  task.held.push_back(tensor.contiguous());
  return task.held.back();
}

at::Tensor written(const at::Tensor& tensor, BanyanWork::Task& task, bool is_only_written) {
  if (tensor.is_contiguous()) return tensor;
  const at::NoGradGuard no_grad;
  at::Tensor copy = is_only_written ? at::empty_like(tensor, at::MemoryFormat::Contiguous) : tensor.contiguous();
  task.held.push_back(copy);
  task.at_end = [tensor, copy] { tensor.copy_(copy); };
  return copy;
}

at::Tensor joined(const std::vector<at::Tensor>& tensors, BanyanWork::Task& task) {
  task.held.push_back(flatten(tensors));
  return task.held.back();
}

at::Tensor gathered(const std::vector<at::Tensor>& tensors, const at::Tensor& like, int64_t elements,
                    BanyanWork::Task& task) {
  at::Tensor flat = at::empty({elements}, like.options());
  task.held.push_back(flat);
  task.at_end = [flat, tensors] { unflatten(flat, tensors); };
  return flat;
}

}  // namespace banyan::pytorch
