// BanyanWork: an operation under way, as torch.distributed hands it out.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "banyan/run/communicator/communicator.h"
#include "bindings/torch/errors.h"
#include "bindings/torch/torch_version.h"

namespace banyan::pytorch {

// An operation that a communicator carries out; BackgroundWork is for others. Any thread. The tensors it was given stay
// alive until the operation is over, even when nobody keeps the work.
//
// Invariants, each an INVARIANT in work.cc. Neither messages nor calls of a program can break them.
//   1. A work follows one request, and before it is completed.
//   2. It is completed only when its request is over; so the tensors are the operation's until then.
//   3. Its task is ended once, by whoever completes the work: a completed work has no at_end any more.
//   4. Only a completed work settles its future.
class BanyanWork : public c10d::Work {
 public:
  using Tensors = std::vector<at::Tensor>;
  struct Task {
    Task(c10d::OpType type_, const char* title_, Tensors inputs_, std::vector<Tensors> outputs_)
        : type(type_), title(title_), inputs(std::move(inputs_)), outputs(std::move(outputs_)) {}

    c10d::OpType type;
    const char* title;             // "banyan:all_reduce", for profilers; a literal
    Tensors inputs;                // the same; and held
    std::vector<Tensors> outputs;  // what result() and the future give; held
    Tensors held;                  // what the operation itself reads and writes, where it is something else
    // Once the operation has succeeded, before anybody learns of it: copies from what is held to the outputs.
    std::function<void()> at_end;
    // The caller's inference mode: tensors that were made in it are changed only in it, by whichever thread.
    bool is_inference = c10::InferenceMode::is_enabled();

    // Calls at_end, once. The copies are no part of what the caller traces or differentiates: the call itself was.
    void end();
  };
  BanyanWork(int rank, Task task);
  ~BanyanWork() override;

  // Once: the operation. One that was carried out at once has an empty request.
  void follow(run::Request request);

  bool isCompleted() override;
  bool isSuccess() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  // Throws CommunicationError when the operation has failed, or when it takes longer than `timeout` (and goes on).
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  const std::vector<Tensors>& outputs() const { return task_.outputs; }

 protected:
  using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;
  // Ends the task and tells everybody, unless that was done; and the future, if there is one by now.
  void complete();
  // The same for what this itself carries out, which is then the end of the task.
  void complete_by(std::function<void()> operation);
  // To be settled by complete(), and whether there was none.
  std::pair<FuturePtr, bool> own_future();
  static CommunicationError not_done_within(std::chrono::milliseconds timeout);

 private:
  void settle(c10::ivalue::Future& future) const;

  Task task_;
  run::Request request_;
  bool has_followed_ = false;  // before others have the work
  std::once_flag completed_once_;
  std::mutex future_mutex_;  // protects the two
  FuturePtr future_;
  bool is_future_settled_ = false;
};

}  // namespace banyan::pytorch
