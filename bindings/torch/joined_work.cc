#include "bindings/torch/joined_work.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "banyan/run/join/deadline.h"
#include "bindings/torch/invariant.h"

namespace banyan::pytorch {
namespace {

using Tensors = BanyanWork::Tensors;

Tensors outputs_of(const JoinedWork::Parts& parts) {
  Tensors all;
  for (const auto& part : parts) {
    for (const Tensors& outputs : part->outputs()) all.insert(all.end(), outputs.begin(), outputs.end());
  }
  return all;
}

}  // namespace

JoinedWork::JoinedWork(int rank, c10d::OpType type, Parts parts) : Work(rank, type), parts_(std::move(parts)) {}

bool JoinedWork::isCompleted() {
  bool are_over = true;  // all are asked: that lets each put its results where they belong
  for (const auto& part : parts_) are_over &= part->isCompleted();
  if (are_over) complete();
  return are_over;
}

bool JoinedWork::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

Tensors JoinedWork::result() {
  TORCH_CHECK(isCompleted(), "Work needs to be completed before calling result(). Should call wait() before result().");
  return outputs_of(parts_);
}

bool JoinedWork::wait(std::chrono::milliseconds timeout) {
  const bool is_limited = timeout.count() > 0;
  const run::Deadline deadline = run::Deadline::after(timeout);
  for (const auto& part : parts_) {
    part->wait(is_limited ? std::max(deadline.left(), std::chrono::milliseconds(1)) : kNoTimeout);
    INVARIANT(part->isCompleted());
  }
  complete();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> JoinedWork::getFuture() {
  {
    const std::lock_guard lock(future_mutex_);
    if (future_) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  }
  const auto future = future_;
  const auto settle = [self = c10::intrusive_ptr<JoinedWork>::reclaim_copy(this), future] {
    self->complete();
    const std::exception_ptr failure = self->exception();
    failure ? future->setError(failure) : future->markCompleted(c10::IValue(outputs_of(self->parts_)));
  };
  if (parts_.empty()) settle();
  const auto left = std::make_shared<std::atomic<size_t>>(parts_.size());
  for (const auto& part : parts_) {
    part->getFuture()->addCallback([settle, left](c10::ivalue::Future&) {
      const size_t before = left->fetch_sub(1);
      INVARIANT(before > 0);
      if (before == 1) settle();
    });
  }
  return future;
}

// Once all parts are.
void JoinedWork::complete() {
  std::call_once(completed_once_, [this] {
    std::exception_ptr first;
    for (const auto& part : parts_) {
      if (!first) first = part->exception();
    }
    finish(first);
  });
}

}  // namespace banyan::pytorch
