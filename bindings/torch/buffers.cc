#include "bindings/torch/buffers.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace banyan::pytorch {
namespace {

bool is_marked(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }

}  // namespace

bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !is_marked(tensor); }

at::Tensor plain(const at::Tensor& tensor) {
  if (is_plain(tensor)) return tensor;
  const at::NoGradGuard no_grad;
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options());
  copy.copy_(tensor);
  return copy;
}

std::byte* mutable_bytes_of(const at::Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(!is_marked(tensor), "memory of a tensor that is stored conjugated or negated");
  return static_cast<std::byte*>(tensor.data_ptr());
}

std::optional<TensorPieces> pieces_of(const std::vector<at::Tensor>& tensors) {
  TensorPieces pieces;
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor)) return std::nullopt;
    if (tensor.numel() == 0) continue;
    std::byte* const begin = mutable_bytes_of(tensor);
    if (pieces.base == nullptr || begin < pieces.base) pieces.base = begin;
  }
  for (const at::Tensor& tensor : tensors) {
    const auto count = static_cast<size_t>(tensor.numel());
    const size_t distance = count == 0 ? 0 : static_cast<size_t>(mutable_bytes_of(tensor) - pieces.base);
    if (distance % tensor.element_size() != 0) return std::nullopt;
    pieces.counts.push_back(count);
    pieces.displacements.push_back(distance / tensor.element_size());
  }
  return pieces;
}

at::Tensor flatten(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> rows;
  rows.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.reshape({-1}));
  return at::cat(rows);
}

void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

}  // namespace banyan::pytorch
