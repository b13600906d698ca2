// CodedScheme: gradients in a fixed-rate code (banyan/codec), in place; and "none", which sends them as they are.
//
// Each rank that encodes, at whichever hop, keeps the code's losses there in its own residual (run/call/residual.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"
#include "bindings/torch/gradient_scheme.h"

namespace banyan::pytorch {

class CodedScheme : public GradientScheme {
 public:
  // Throws Error{invalid_input} that lists the names.
  static std::shared_ptr<CodedScheme> parse(const std::string& name, const Context& context);
  CodedScheme(std::optional<codec::Codec> codec, const Context& context);

  const std::optional<codec::Codec>& codec() const { return codec_; }
  std::string name() const override { return codec_ ? codec::to_string(*codec_) : "none"; }
  bool keeps_residuals() const override { return context_.keeps_residuals; }
  std::optional<codec::Codec> codec_of_sparse() const override { return codec_; }
  TensorFuture average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) override;

 private:
  const std::optional<codec::Codec> codec_;
  const Context context_;
};

}  // namespace banyan::pytorch
