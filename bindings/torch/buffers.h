// Tensors as the contiguous memory that calls read and write.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace banyan::pytorch {

// True if memory holds the values, one after the other. Views like x.conj() and x.conj().imag are contiguous, too, but
// only carry a mark, "conjugated" or "negated": their memory holds other values.
bool is_plain(const at::Tensor& tensor);
// The same values in plain memory: of the tensor itself, if it is plain, else of a copy.
at::Tensor plain(const at::Tensor& tensor);

// The beginning of a plain tensor's memory. All calls get at memory by these two, so that a mark that was overlooked
// ends in an exception, not in wrong values.
std::byte* mutable_bytes_of(const at::Tensor& tensor);
inline const std::byte* bytes_of(const at::Tensor& tensor) { return mutable_bytes_of(tensor); }

// Tensors of one type and size that lie anywhere in memory, as pieces of one buffer that begins at the lowest of them.
struct TensorPieces {
  std::byte* base = nullptr;
  std::vector<size_t> counts, displacements;  // in elements
};
// None where they are no such pieces: one is not plain, or they do not lie at a multiple of an element.
std::optional<TensorPieces> pieces_of(const std::vector<at::Tensor>& tensors);

// One after the other, in a new tensor, which no gradient flows through.
at::Tensor flatten(const std::vector<at::Tensor>& tensors);
// The other way round: copies from the front of `flat`.
void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors);

}  // namespace banyan::pytorch
