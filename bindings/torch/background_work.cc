#include "bindings/torch/background_work.h"

#include <mutex>

namespace banyan::pytorch {

bool BackgroundWork::isCompleted() {
  const std::lock_guard lock(mutex_);
  return completed_;
}

bool BackgroundWork::wait(std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    if (timeout.count() <= 0) {
      cv_.wait(lock, [this] { return completed_; });
    } else if (!cv_.wait_for(lock, timeout, [this] { return completed_; })) {
      throw not_done_within(timeout);
    }
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> BackgroundWork::getFuture() {
  const auto [future, is_new] = own_future();
  if (is_new && isCompleted()) complete();
  return future;
}

}  // namespace banyan::pytorch
