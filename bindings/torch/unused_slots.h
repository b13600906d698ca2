// UnusedSlots: parameters of a bucket that no rank uses in this step, for the code that has no zero (sign).
//
// There all ranks send zeros, and what the code makes of them is nobody's loss: after the average these slots are as if
// nothing had been sent.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <span>

#include "banyan/codec/codec.h"
#include "bindings/torch/futures.h"
#include "bindings/torch/parameter_residuals.h"
#include "bindings/torch/process_group.h"

namespace banyan::pytorch {

class UnusedSlots {
 public:
  // None for codes that have a zero. Else collective: asks all ranks which slots of the bucket wait there
  // (BucketResidual::await_gradients()).
  static std::optional<UnusedSlots> ask(const codec::Codec& codec, const BucketResidual& bucket,
                                        ProcessGroupBanyan& group);

  // Over when all have answered; it may be restored then, once the average is over, too.
  const TensorFuture& answered() const { return answered_; }
  void restore(BucketResidual& bucket, std::span<float> averages) const;

 private:
  UnusedSlots(at::Tensor used, TensorFuture answered) : used_(std::move(used)), answered_(std::move(answered)) {}

  at::Tensor used_;  // by slot
  TensorFuture answered_;
};

}  // namespace banyan::pytorch
