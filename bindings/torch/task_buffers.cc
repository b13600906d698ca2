#include "bindings/torch/task_buffers.h"

#include "bindings/torch/buffers.h"
#include "bindings/torch/elements.h"

namespace banyan::pytorch {

run::Call moving_call(run::OperationKind kind, const at::Tensor& from, const at::Tensor& to) {
  const ElementMove move = move_of(from);
  return {.kind = kind,
          .type = move.type,
          .send = bytes_of(from),
          .recv = mutable_bytes_of(to),
          .count = count_of(from, move.elements_each)};
}

at::Tensor read(const at::Tensor& tensor, BanyanWork::Task& task) {
  if (is_plain(tensor)) return tensor;
  task.held.push_back(plain(tensor));
  return task.held.back();
}

at::Tensor written(const at::Tensor& tensor, BanyanWork::Task& task, bool is_only_written) {
  if (is_plain(tensor)) return tensor;
  const at::Tensor copy = is_only_written ? at::empty(tensor.sizes(), tensor.options()) : plain(tensor);
  task.held.push_back(copy);
  task.at_end = [tensor, copy] { tensor.copy_(copy); };
  return copy;
}

void copy_at_end(const at::Tensor& buffer, const std::vector<at::Tensor>& tensors, BanyanWork::Task& task) {
  task.held.push_back(buffer);
  task.at_end = [tensors, buffer] {
    for (const at::Tensor& tensor : tensors) tensor.copy_(buffer);
  };
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
