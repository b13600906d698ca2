// CodedScheme: gradients in a fixed-rate code (banyan/codec), in place; and "none", which sends them as they are.
//
// Whoever encodes, at whichever hop, keeps what the code loses there in its own residual (run/call/residual.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"
#include "bindings/torch/gradient_scheme.h"

namespace banyan::pytorch {

class CodedScheme : public GradientScheme, public std::enable_shared_from_this<CodedScheme> {
 public:
  // Throws Error{invalid_input} that lists the names.
  static std::shared_ptr<CodedScheme> parse(const std::string& name, const Context& context);
  CodedScheme(std::optional<codec::Codec> codec, const Context& context);

  std::string name() const override { return codec_ ? codec::to_string(*codec_) : "none"; }
  bool keeps_residuals() const override { return context_.keeps_residuals; }
  TensorFuture average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) override;

 private:
  // After an average: slots that no rank uses are as if nothing had been sent.
  void restore_unused(BucketResidual& bucket, const at::Tensor& buffer, const at::Tensor& used);

  const std::optional<codec::Codec> codec_;
  const Context context_;
};

}  // namespace banyan::pytorch
