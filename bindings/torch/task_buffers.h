// The memory that a call reads and writes, for tensors as they come: their own, or copies that the task of a work
// holds.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "bindings/torch/work.h"

namespace banyan::pytorch {

inline uint64_t count_of(const at::Tensor& tensor, uint64_t elements_each) {
  return static_cast<uint64_t>(tensor.numel()) * elements_each;
}

// A call that moves elements: the type and the count are those of `from`.
run::Call moving_call(run::OperationKind kind, const at::Tensor& from, const at::Tensor& to);

// The memory of a tensor that is read.
at::Tensor read(const at::Tensor& tensor, BanyanWork::Task& task);
// The memory of one that is written, and read unless `is_only_written`. A copy goes back at the end.
at::Tensor written(const at::Tensor& tensor, BanyanWork::Task& task, bool is_only_written = false);
// At the end all these become what the buffer holds then.
void copy_at_end(const at::Tensor& buffer, const std::vector<at::Tensor>& tensors, BanyanWork::Task& task);
// The memory of tensors that are read as one.
at::Tensor joined(const std::vector<at::Tensor>& tensors, BanyanWork::Task& task);
// The memory of tensors that are written as one, of `elements` in all: a copy, which goes back at the end.
at::Tensor gathered(const std::vector<at::Tensor>& tensors, const at::Tensor& like, int64_t elements,
                    BanyanWork::Task& task);

}  // namespace banyan::pytorch
