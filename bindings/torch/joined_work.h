// JoinedWork: several operations under way, handed out as one.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <exception>
#include <mutex>
#include <vector>

#include "bindings/torch/torch_version.h"
#include "bindings/torch/work.h"

namespace banyan::pytorch {

// Over when all are, and failed when one is; of several errors it gives that of the first in order. Its result and the
// value of its future are the outputs of all, one after the other. Any thread.
//
// Invariants, each an INVARIANT in joined_work.cc.
//   1. After a wait for it, all its parts are completed.
//   2. Each part's future calls back once, and the last of them settles the future of all.
class JoinedWork : public c10d::Work {
 public:
  using Parts = std::vector<c10::intrusive_ptr<BanyanWork>>;
  JoinedWork(int rank, c10d::OpType type, Parts parts);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::vector<at::Tensor> result() override;
  // As BanyanWork does; `timeout` is that of all together.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void complete();

  const Parts parts_;
  std::once_flag completed_once_;
  std::mutex future_mutex_;  // protects the next
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace banyan::pytorch
