#include "bindings/torch/futures.h"

#include <utility>

namespace banyan::pytorch {

void follow(const TensorFuture& from, const TensorFuture& to, std::function<void()> go_on) {
  from->addCallback([to, go_on = std::move(go_on)](c10::ivalue::Future& over) {
    if (over.hasError()) return to->setError(over.exception_ptr());
    try {
      go_on();
    } catch (...) {
      to->setError(std::current_exception());
    }
  });
}

TensorFuture when_over(c10d::Work& work, const at::Tensor& buffer) {
  auto future = new_tensor_future();
  follow(work.getFuture(), future, [future, buffer] { future->markCompleted(buffer); });
  return future;
}

}  // namespace banyan::pytorch
