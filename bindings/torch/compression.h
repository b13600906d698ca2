// Compression: averages the gradients of a model over a group, coded on the wire, for DistributedDataParallel.
//
// Buckets of float32 go in a fixed-rate code (banyan/codec), in place, and what the code loses on this rank is added
// the next time (run/call/residual.h), by parameter (parameter_residuals.h). Buckets of other types, sparse ones, and
// all if there is no codec are averaged as DDP does by itself.
//
// Any thread; calls exclude each other. Throws c10::Error for arguments, CommunicationError for a group that has
// failed, and for residuals that are asked for while a bucket is under way.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <vector>

#include "banyan/codec/codec.h"
#include "bindings/torch/parameter_residuals.h"
#include "bindings/torch/process_group.h"
#include "bindings/torch/torch_version.h"

namespace banyan::pytorch {

class Compression : public std::enable_shared_from_this<Compression> {
 public:
  using Group = c10::intrusive_ptr<ProcessGroupBanyan>;
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  Compression(Group group, std::optional<codec::Codec> codec, bool keeps_residuals,
              std::vector<NamedParameter> parameters);

  // Collective. The future's value is the bucket's buffer, averaged.
  Future average(c10d::GradBucket& bucket);
  // What DDP calls from now on, by itself: no Python is run in the backward pass. Throws c10::Error when it has a hook.
  void install(c10d::Reducer& reducer);

  // Residuals by name: what parameters have none yet are left out.
  std::map<std::string, at::Tensor> residuals();  // copies
  // Those of parameters that are left out become zero.
  void set_residuals(const std::map<std::string, at::Tensor>& residuals);
  std::map<std::string, double> residual_norms();  // Euclidean
  void scale(double factor);

 private:
  Future coded_average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters);
  // After an average: slots that no rank uses are as if nothing had been sent.
  void restore_unused(BucketResidual& bucket, const at::Tensor& buffer, const at::Tensor& used);

  const Group group_;
  const std::optional<codec::Codec> codec_;
  const bool keeps_residuals_;
  std::mutex mutex_;  // protects the residuals, but for what a call under way does
  ParameterResiduals residuals_;
};

}  // namespace banyan::pytorch
