// TopK: averages the largest values of a bucket, "topk:1%"; the others stay in its residual until they are large.
//
// A call chooses from gradient + residual (sparse/selection.h) and adds up the choices of all ranks as a table of rows
// of one value (run/sparse), perhaps in a code. Over all ranks, gradients and residuals before are the sum and the
// residuals after. With `momentum`, the gradient becomes the momentum first, which starts anew where it was sent
// (sparse/momentum.h): the optimizer must have none then.
//
// Where a result is not finite, in any place of the bucket, residual and momentum stay as they were before the call,
// since the step will be skipped; so do they when the call fails.
//
// Blocks: this rank carries out the exchange before average() returns. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "banyan/codec/codec.h"
#include "banyan/run/sparse/sparse_all_reduce.h"
#include "bindings/torch/parameter_residuals.h"
#include "bindings/torch/process_group.h"

namespace banyan::pytorch {

struct TopKScheme {
  double share = 0.01;                  // of a bucket's values, above 0 and up to 1; one value at least
  std::optional<codec::Codec> codec{};  // of the values
  float momentum = 0;                   // its factor, from 0 to below 1
  double largest_norm = 0;              // MomentumTask
};
// "topk:1%", "topk:0.1%+int8". Nothing where the text does not begin so; throws Error{invalid_input} where it goes on
// otherwise.
std::optional<TopKScheme> parse_topk(const std::string& text);
std::string to_string(const TopKScheme& scheme);

class TopK {
 public:
  TopK(c10::intrusive_ptr<ProcessGroupBanyan> group, const TopKScheme& scheme)
      : group_(std::move(group)), scheme_(scheme) {}

  bool has_momentum() const { return scheme_.momentum > 0; }
  // Collective. In place. `residual` may be null, `momentum` is not where has_momentum(); both are the bucket's.
  void average(std::span<float> gradients, BucketResidual* residual, BucketResidual* momentum);

 private:
  run::SparseAllReduce& table_of(size_t values);
  bool add_up(std::span<float> gradients, std::span<float> residual, std::span<float> momentum);

  const c10::intrusive_ptr<ProcessGroupBanyan> group_;
  const TopKScheme scheme_;
  std::map<size_t, std::unique_ptr<run::SparseAllReduce>> tables_;  // by values
  sparse::RowList chosen_;                                          // keeps its memory
  std::vector<int64_t> rows_;                                       // the same
};

}  // namespace banyan::pytorch
