// BackgroundWork: an operation that a thread of this process carries out by itself, as torch.distributed hands it out.
#pragma once

#include <chrono>
#include <functional>

#include "bindings/torch/torch_version.h"
#include "bindings/torch/work.h"

namespace banyan::pytorch {

// Any thread. Its invariant, an INVARIANT in background_work.cc: it is carried out once, and has no request to follow.
class BackgroundWork : public BanyanWork {
 public:
  using BanyanWork::BanyanWork;

  // Once, and while somebody holds the work: calls `operation`, as the caller would have. An exception of the operation
  // is the work's error.
  void carry_out(std::function<void()> operation);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
};

}  // namespace banyan::pytorch
