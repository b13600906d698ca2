// Futures of tensors, one after the other. Callbacks run in whichever thread completes what they wait for, or at once.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <functional>

#include "bindings/torch/torch_version.h"

namespace banyan::pytorch {

using TensorFuture = c10::intrusive_ptr<c10::ivalue::Future>;

inline TensorFuture new_tensor_future() { return c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get()); }

// Calls `go_on` once `from` has succeeded; what fails, or is thrown there, fails `to`.
void follow(const TensorFuture& from, const TensorFuture& to, std::function<void()> go_on);

// `buffer` once the work has succeeded.
TensorFuture when_over(c10d::Work& work, const at::Tensor& buffer);

}  // namespace banyan::pytorch
