// Compression: averages the gradients of a model over a group by a scheme, for DistributedDataParallel.
//
// Buckets of float32 go by the scheme (gradient_scheme.h), and what that loses on this rank is added the next time, by
// parameter (parameter_residuals.h). Sparse gradients go in the scheme's code, by rows, where it has one and the ranks
// are on several hosts. Buckets of other types, and other sparse ones, are averaged as DDP does by itself.
//
// Any thread; calls exclude each other. Throws c10::Error for arguments, CommunicationError for a group that has
// failed, and for residuals that are asked for while a bucket is under way.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <vector>

#include "banyan/codec/codec.h"
#include "bindings/torch/gradient_scheme.h"

namespace banyan::pytorch {

class Compression : public std::enable_shared_from_this<Compression> {
 public:
  // As make_scheme(); collective where that is.
  Compression(const c10::intrusive_ptr<ProcessGroupBanyan>& group, const std::string& scheme,
              std::map<std::string, double> options, bool keeps_residuals, std::vector<NamedParameter> parameters);

  std::string scheme() const { return scheme_->name(); }
  bool keeps_residuals() const { return scheme_->keeps_residuals(); }

  // Collective. The future's value is the bucket's buffer, averaged.
  TensorFuture average(c10d::GradBucket& bucket);
  // The same of a buffer that is not DDP's: the values of these parameters one after the other.
  TensorFuture average_of(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters);
  // Makes average() the hook that DDP calls from now on, by itself: no Python is run in the backward pass. Throws
  // c10::Error when DDP has a hook already.
  void install(c10d::Reducer& reducer);

  // Copies: "residuals" by name, without parameters that have none yet, and what the scheme keeps beside them.
  GradientScheme::State state();
  // Entries that are left out become zero, or as they were at first.
  void set_state(const GradientScheme::State& state);
  std::map<std::string, double> residual_norms();  // Euclidean
  void scale(double factor);
  std::string report() { return scheme_->report(); }

 private:
  TensorFuture sparse_average(const at::Tensor& gradient, const at::Tensor& parameter, const codec::Codec& codec);

  const c10::intrusive_ptr<ProcessGroupBanyan> group_;
  const std::shared_ptr<ParameterResiduals> residuals_;
  const std::shared_ptr<GradientScheme> scheme_;
};

}  // namespace banyan::pytorch
