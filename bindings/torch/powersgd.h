// PowerSgd: gradients of matrices as products of two narrow ones, which are averaged in their place.
//
// For each matrix M (a gradient plus its residual) and the directions Q that the last step has left, P = M Q is summed
// over the ranks and made orthonormal; Q = M^T P is summed, too, and P Q^T / n is the average. A bucket is two calls:
// all P of its parameters in their order, row-major, and then the tensors that are sent as they are, in one call of
// float32; then all Q in another. A parameter of more than two dimensions is a matrix of its outermost dimension in
// memory and the rest. One is sent as it is where (r + c) k * least_ratio >= r c, and in its first `dense_steps` steps.
//
//   "powersgd:4"  k = 4. Options: dense_steps (10), least_ratio (2), seed (0) of the first directions.
//
// The second call begins when the first has ended, in the thread that finds that out. That moment differs between
// ranks, so these calls are those of a twin of the group, in the order of the first ones; it comes about with the first
// of them.
//
// Source: Vogels, Karimireddy, Jaggi, NeurIPS 2019, algorithms 1 and 2. This departs from them: a rank keeps
// M - P Q_i^T, with the Q_i of itself, not M - P Q^T / n. The sum over all ranks is the same, and on nothing else do
// results depend; but a rank whose gradients are zero, as after it has finished (Join), keeps what it kept. Q is made
// orthonormal before it is used again, so that its length follows no loss scale; columns that depend on others begin
// anew with random numbers, and where all is zero Q stays as it was.
//
// Between ranks of one host gradients go as they are.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "banyan/codec/low_rank.h"
#include "bindings/torch/gradient_scheme.h"
#include "bindings/torch/in_order.h"

namespace banyan::pytorch {

class PowerSgd : public GradientScheme, public std::enable_shared_from_this<PowerSgd> {
 public:
  struct Settings {
    size_t rank = 0;
    uint64_t dense_steps = 10;
    double least_ratio = 2;
    uint64_t seed = 0;
  };
  static constexpr size_t kMaximumRank = 256;

  // Throws Error{invalid_input} for a rank that is none, and for options.
  static std::shared_ptr<GradientScheme> parse(const std::string& name, SchemeOptions& options, const Context& context);
  PowerSgd(const Settings& settings, const Context& context);

  std::string name() const override { return "powersgd:" + std::to_string(settings_.rank); }
  bool keeps_residuals() const override { return context_.keeps_residuals; }
  TensorFuture average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) override;
  // "directions": Q of each parameter that has been sent so; "steps": how many each has taken.
  State state() override;
  void set_state(const State& state) override;

 private:
  struct Parameter {
    codec::low_rank::Shape shape;   // rank 0: always sent as it is
    std::vector<float> directions;  // Q of the last step; empty before the first
    uint64_t steps = 0;
  };
  struct Bucket;  // whose average is under way

  std::shared_ptr<Bucket> begin(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters);
  // After the first call, in order; then it is the second one's turn.
  void go_on(const std::shared_ptr<Bucket>& bucket);
  void end(Bucket& bucket);
  void fail(Bucket& bucket, const std::exception_ptr& error);
  void keep_directions(size_t number, std::span<const float> sums);
  std::vector<float> first_directions(size_t number) const;
  ProcessGroupBanyan& twin();

  const Settings settings_;
  const Context context_;
  InOrder second_calls_;
  std::mutex mutex_;  // protects the next two
  c10::intrusive_ptr<ProcessGroupBanyan> twin_;
  std::vector<Parameter> parameters_;
};

}  // namespace banyan::pytorch
