// Momentum correction of Deep Gradient Compression (Lin et al., arXiv 1712.01887, section 3): the momentum is kept
// where the gradient is, since what is sent late would else have missed it. The optimizer then applies none of its own.
//
// With m the momentum and v the residual (there: the velocity) each step is m = factor * m + gradient, v += m; some v
// are sent; where they were, m and v start anew. The sum and the choice are those of selection.h, with m as the values.
#pragma once

#include <cstdint>
#include <span>

namespace banyan::sparse {

struct MomentumTask {
  std::span<float> gradient;  // becomes the new momentum; what is not finite stays
  std::span<float> momentum;  // as long; stays where the gradient is not finite
  float factor = 0.9F;
  double largest_norm = 0;  // of the mean of all ranks' gradients; 0: gradients are not clipped
  uint32_t ranks = 1;
};

// Clips the gradient to largest_norm / sqrt(ranks), unless some of it is not finite; then adds it to the momentum.
void add_to_momentum(const MomentumTask& task);

// Factor masking: what has been sent starts anew.
void clear_sent(std::span<const uint32_t> sent, std::span<float> momentum);

}  // namespace banyan::sparse
