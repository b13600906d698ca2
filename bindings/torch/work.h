// BanyanWork: an operation under way, as torch.distributed hands it out.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <mutex>
#include <vector>

#include "banyan/run/communicator.h"
#include "bindings/torch/torch_version.h"

namespace banyan::pytorch {

// What reaches Python as banyan_torch.Error (a RuntimeError), with the code as its `code`.
class CommunicationError : public std::runtime_error {
 public:
  explicit CommunicationError(const Error& error);
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Any thread. The tensors it was given stay alive until the operation is over, even when nobody keeps the work.
class BanyanWork : public c10d::Work {
 public:
  using Tensors = std::vector<at::Tensor>;
  struct Task {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = "";        // "banyan:all_reduce", for profilers; a literal
    Tensors inputs;                // the same; and held
    std::vector<Tensors> outputs;  // what result() and the future give; held
    Tensors held;                  // what the operation itself reads and writes, where it is something else
    // Once the operation has succeeded, before anybody learns of it: copies from what is held to the outputs.
    std::function<void()> at_end;
  };
  BanyanWork(int rank, Task task);
  ~BanyanWork() override;

  // Once: the operation. One that was carried out at once has an empty request.
  void follow(Request request);

  bool isCompleted() override;
  bool isSuccess() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  // Throws CommunicationError when the operation has failed, or when it takes longer than `timeout` (and goes on).
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void complete();
  void settle(c10::ivalue::Future& future) const;

  Task task_;
  Request request_;
  std::once_flag completed_once_;
  std::mutex future_mutex_;  // protects the two
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool is_future_settled_ = false;
};

}  // namespace banyan::pytorch
