// BoxedScheme: gradients in a fixed-rate code between boxes (boxes.h), and as they are in each box: "int8" with the
// option box_ranks.
//
// The residual of a rank goes into the sum of its box; the code's losses of a share are kept by the rank whose share it
// is. So after a step a rank keeps losses of its own shares only; what it still has of other shares, from other buckets
// or boxes, goes along with the gradients as they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"
#include "bindings/torch/boxes.h"
#include "bindings/torch/gradient_scheme.h"

namespace banyan::pytorch {

class BoxedScheme : public GradientScheme {
 public:
  // The boxes are of the context's group.
  BoxedScheme(const codec::Codec& codec, std::shared_ptr<Boxes> boxes, const Context& context);

  // The code's alone: what is kept is by parameter, whatever the boxes are.
  std::string name() const override { return codec::to_string(codec_); }
  bool keeps_residuals() const override { return context_.keeps_residuals; }
  // Between all ranks: rows that several ranks of a box have would not be fewer bytes elsewhere.
  std::optional<codec::Codec> codec_of_sparse() const override { return codec_; }
  TensorFuture average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) override;

 private:
  const codec::Codec codec_;
  const std::shared_ptr<Boxes> boxes_;  // of all schemes of one choice (auto_scheme.h)
  const Context context_;
};

}  // namespace banyan::pytorch
