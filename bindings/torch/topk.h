// TopK: averages the largest values of a bucket, "topk:1%"; the others stay in its residual until they are large.
//
// A call chooses from gradient + residual (sparse/selection.h) and adds up the choices of all ranks as a table of rows
// of one value (run/sparse), perhaps in a code: "topk:1%+int8". Options:
//
//   momentum (0)  from 0 to below 1, with residuals: the gradient becomes the momentum first, which starts anew where
//                 it was sent (sparse/momentum.h). The optimizer must have none then.
//   masking (1)   with momentum: 0 lets it go on where it was sent, too, as dense training does
//   clip (0)      with momentum, the largest Euclidean norm of a bucket's average gradient, clipped on each rank;
//                 0: any
//   warm_up (0)   the share falls from 25 % to its own, by the same factor in each step, over so many first steps of a
//                 parameter: early gradients change too much to be sent late. Lin, Han, Mao, Wang, Dally, "Deep
//                 Gradient Compression", ICLR 2018, section 3.3, in 4 stages there
//
// Where a result is not finite, in any place of the bucket, residual and momentum stay as they were before the call,
// since the step will be skipped; so do they when the call fails.
//
// Values are chosen and added up in a thread of the group, while the backward pass goes on: one bucket after the other,
// whichever model it is of.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"
#include "banyan/run/sparse/sparse_all_reduce.h"
#include "bindings/torch/gradient_scheme.h"

namespace banyan::pytorch {

class TopK : public GradientScheme, public std::enable_shared_from_this<TopK> {
 public:
  struct Settings {
    double share = 0.01;                  // of a bucket's values, above 0 and up to 1; one value at least
    std::optional<codec::Codec> codec{};  // of the values
    float momentum = 0;
    bool masks_momentum = true;
    double largest_norm = 0;  // MomentumTask
    uint64_t warm_up = 0;
  };

  // Throws Error{invalid_input} for a share or a code that is none, and for options.
  static std::shared_ptr<GradientScheme> parse(const std::string& name, SchemeOptions& options, const Context& context);
  TopK(const Settings& settings, const Context& context);

  std::string name() const override;
  bool keeps_residuals() const override { return context_.keeps_residuals; }
  TensorFuture average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) override;
  // With momentum: "momenta"; with a warm-up: "steps", how many each parameter has taken.
  State state() override;
  void set_state(const State& state) override;
  void scale(double factor) override;

 private:
  struct Bucket;  // whose average is under way

  Bucket begin(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters);
  size_t take_step(const std::vector<at::Tensor>& parameters, size_t values);
  void add_up(Bucket& bucket, run::Communicator& communicator, std::chrono::milliseconds timeout);
  run::SparseAllReduce& table_of(size_t values, run::Communicator& communicator);

  const Settings settings_;
  const Context context_;
  const std::unique_ptr<ParameterResiduals> momenta_;  // null without momentum
  // The steps that each parameter has taken, in the order of the model; none without a warm-up. Under the lock of the
  // residuals.
  std::vector<uint64_t> steps_;
  // For the thread that adds up only.
  std::map<size_t, std::unique_ptr<run::SparseAllReduce>> tables_;  // by values
  sparse::RowList chosen_;                                          // keeps its memory
  std::vector<int64_t> rows_;                                       // the same
};

}  // namespace banyan::pytorch
