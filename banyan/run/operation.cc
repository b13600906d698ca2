#include "banyan/run/operation.h"

#include <utility>

#include "banyan/run/system/futex.h"

namespace banyan {

Operation::Operation(const Call& call, std::shared_ptr<Communicator::Impl> owner)
    : call_(call), owner_(std::move(owner)) {
  std::span<const size_t>* const spans[] = {&call_.send_counts, &call_.send_displacements, &call_.recv_counts,
                                            &call_.recv_displacements};
  for (size_t i = 0; i < 4; ++i) {
    counts_[i].assign(spans[i]->begin(), spans[i]->end());
    *spans[i] = counts_[i];
  }
}

void Operation::finish(const std::optional<Error>& error) {
  error_ = error;
  state_.store(kOver, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) > 0) futex_wake_all(state_);
}

void Operation::wait(std::chrono::milliseconds at_most) {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  if (!is_over()) futex_wait(state_, kUnderWay, at_most);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace banyan
