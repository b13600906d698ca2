#include "bindings/torch/background_work.h"

#include <mutex>
#include <utility>

#include "bindings/torch/invariant.h"
#include "bindings/torch/signals.h"

namespace banyan::pytorch {

void BackgroundWork::carry_out(std::function<void()> operation) {
  INVARIANT(!isCompleted());
  complete_by(std::move(operation));
}

bool BackgroundWork::isCompleted() {
  const std::lock_guard lock(mutex_);
  return completed_;
}

bool BackgroundWork::wait(std::chrono::milliseconds timeout) {
  const auto is_over_within = [this](std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return cv_.wait_for(lock, at_most, [this] { return completed_; });
  };
  if (!wait_and_look(timeout, is_over_within)) throw not_done_within(timeout);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> BackgroundWork::getFuture() {
  const auto [future, is_new] = own_future();
  if (is_new && isCompleted()) complete();
  return future;
}

}  // namespace banyan::pytorch
