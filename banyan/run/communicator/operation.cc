#include "banyan/run/communicator/operation.h"

#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/system/futex.h"

namespace banyan::run {

Operation::Operation(const Call& call, std::shared_ptr<Communicator::Impl> owner)
    : call_(call), owner_(std::move(owner)) {
  std::span<const size_t>* const spans[] = {&call_.send_counts, &call_.send_displacements, &call_.recv_counts,
                                            &call_.recv_displacements};
  for (size_t i = 0; i < 4; ++i) {
    counts_[i].assign(spans[i]->begin(), spans[i]->end());
    *spans[i] = counts_[i];
  }
}

bool Operation::finish(const std::optional<Error>& error) {
  error_ = error;
  bool has_callbacks = false;
  {
    const std::lock_guard lock(mutex_);
    state_.store(kOver, std::memory_order_seq_cst);
    has_callbacks = !callbacks_.empty();
  }
  if (waiters_.load(std::memory_order_seq_cst) > 0) futex_wake_all(state_);
  return has_callbacks;
}

// None is added once it is over.
void Operation::call_back() {
  CHECK(is_over());
  for (const std::function<void()>& callback : std::exchange(callbacks_, {})) callback();
}

void Operation::on_done(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_over()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

void Operation::wait(std::chrono::milliseconds at_most) {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  if (!is_over()) futex_wait(state_, kUnderWay, at_most);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace banyan::run
