#include "bindings/torch/work.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

#include "bindings/torch/errors.h"
#include "bindings/torch/invariant.h"
#include "bindings/torch/signals.h"

namespace banyan::pytorch {
namespace {

const char* title_if_profiled(const char* title) { return at::hasCallbacks() ? title : nullptr; }

c10::TypePtr type_of_value(const std::vector<BanyanWork::Tensors>& outputs) {
  const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
  return outputs.size() > 1 ? c10::TypePtr(c10::ListType::create(list)) : list;
}

}  // namespace

void BanyanWork::Task::end() {
  if (!at_end) return;
  const c10::InferenceMode as_in_the_call(is_inference);
  const at::NoGradGuard no_grad;
  // Whoever waits may be under modes that record or change every operation, as make_fx() does.
  const c10::impl::ExcludeDispatchKeyGuard no_modes(c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
       c10::DispatchKey::FuncTorchDynamicLayerBackMode}));
  std::exchange(at_end, nullptr)();
}

BanyanWork::BanyanWork(int rank, Task task)
    : Work(rank, task.type, title_if_profiled(task.title),
           at::hasCallbacks() ? c10::optional<Tensors>(task.inputs) : c10::nullopt),
      task_(std::move(task)) {}

// Nobody will look any more, but the operation goes on and its buffers must stay.
BanyanWork::~BanyanWork() {
  if (completed_) return;
  request_.on_done([request = request_, task = std::make_shared<Task>(std::move(task_))] {
    if (!request.error()) task->end();
  });
}

void BanyanWork::follow(run::Request request) {
  INVARIANT(!std::exchange(has_followed_, true) && !completed_) << task_.title;
  request_ = std::move(request);
  if (recordFunctionEndCallback_) {  // somebody measures when it ends
    request_.on_done([self = c10::intrusive_ptr<BanyanWork>::reclaim_copy(this)] { self->complete(); });
  }
}

void BanyanWork::complete() {
  INVARIANT(request_.is_over()) << task_.title;
  std::call_once(completed_once_, [this] {
    std::exception_ptr failure;
    if (const std::optional<Error> error = request_.error()) {
      failure = std::make_exception_ptr(CommunicationError(*error));
    } else {
      try {
        task_.end();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    task_.at_end = nullptr;
    finish(failure);
  });
  INVARIANT(!task_.at_end) << task_.title;
  FuturePtr future;
  {
    const std::lock_guard lock(future_mutex_);
    if (!is_future_settled_) future = future_;
    is_future_settled_ = future_ != nullptr;
  }
  if (future) settle(*future);
}

void BanyanWork::complete_by(std::function<void()> operation) {
  task_.at_end = std::move(operation);
  complete();
}

std::pair<BanyanWork::FuturePtr, bool> BanyanWork::own_future() {
  const std::lock_guard lock(future_mutex_);
  const bool is_new = future_ == nullptr;
  if (is_new) future_ = c10::make_intrusive<c10::ivalue::Future>(type_of_value(task_.outputs));
  return {future_, is_new};
}

CommunicationError BanyanWork::not_done_within(std::chrono::milliseconds timeout) {
  return CommunicationError(Error(
      ErrorCode::timed_out, "Operation timed out! It was not done within " + std::to_string(timeout.count()) + " ms"));
}

void BanyanWork::settle(c10::ivalue::Future& future) const {
  INVARIANT(completed_) << task_.title;
  if (exception_) {
    future.setError(exception_);
  } else if (task_.outputs.size() > 1) {
    future.markCompleted(c10::IValue(task_.outputs));
  } else {
    future.markCompleted(c10::IValue(task_.outputs.empty() ? Tensors() : task_.outputs.front()));
  }
}

bool BanyanWork::isCompleted() {
  if (!request_.is_over()) return false;
  complete();
  return true;
}

bool BanyanWork::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

int BanyanWork::sourceRank() const {
  TORCH_CHECK(opType_ == c10d::OpType::RECVANYSOURCE || opType_ == c10d::OpType::RECV,
              "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.");
  return static_cast<int>(request_.peer());
}

std::vector<at::Tensor> BanyanWork::result() {
  TORCH_CHECK(isCompleted(), "Work needs to be completed before calling result(). Should call wait() before result().");
  TORCH_CHECK(task_.outputs.size() <= 1, "work result does not support list of lists, use .getFuture() and value()");
  return task_.outputs.empty() ? Tensors() : task_.outputs.front();
}

bool BanyanWork::wait(std::chrono::milliseconds timeout) {
  run::Request request = request_;
  try {
    if (!wait_and_look(timeout, [&](std::chrono::milliseconds at_most) { return request.wait_for(at_most); })) {
      throw not_done_within(timeout);
    }
  } catch (const Error&) {  // told below, as to everybody who asks
  }
  complete();
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

BanyanWork::FuturePtr BanyanWork::getFuture() {
  const auto [future, is_new] = own_future();
  if (!is_new) return future;
  request_.on_done([self = c10::intrusive_ptr<BanyanWork>::reclaim_copy(this)] { self->complete(); });
  request_.progress_at_once();
  return future;
}

}  // namespace banyan::pytorch
