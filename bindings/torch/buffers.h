// Tensors as the contiguous memory that calls read and write.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace banyan::pytorch {

inline const std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<const std::byte*>(tensor.data_ptr()); }
inline std::byte* mutable_bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// Tensors of one type and size that lie anywhere in memory, as pieces of one buffer that begins at the lowest of them.
struct TensorPieces {
  std::byte* base = nullptr;
  std::vector<size_t> counts, displacements;  // in elements
};
// None where they are no such pieces: one is not contiguous, or they do not lie at a multiple of an element.
std::optional<TensorPieces> pieces_of(const std::vector<at::Tensor>& tensors);

// One after the other, in a new tensor, which no gradient flows through.
at::Tensor flatten(const std::vector<at::Tensor>& tensors);
// The other way round: copies from the front of `flat`.
void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors);

}  // namespace banyan::pytorch
