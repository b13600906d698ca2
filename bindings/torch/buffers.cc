#include "bindings/torch/buffers.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace banyan::pytorch {

std::optional<TensorPieces> pieces_of(const std::vector<at::Tensor>& tensors) {
  TensorPieces pieces;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous()) return std::nullopt;
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
