// Found where PyTorch leaves this header out of what it installs, as 1.13 does, though its reducer.hpp includes it: for
// these names alone. Nothing here makes or touches a context.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>

namespace torch::distributed::autograd {

struct DistAutogradContext {
  using GradCallback = std::function<bool(at::Tensor&)>;
};
using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace torch::distributed::autograd
