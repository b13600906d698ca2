// Momentum correction of Deep Gradient Compression (Lin et al., arXiv 1712.01887, section 3): the momentum is kept
// where the gradient is, since what is sent late would else have missed it. The optimizer then applies none of its own.
#pragma once

#include <cstdint>
#include <span>

namespace banyan::sparse {

struct MomentumTask {
  std::span<const float> gradient;
  std::span<float> momentum, velocity;  // m and v, as long as `gradient`; what is sent is chosen from v
  float factor = 0.9F;                  // of the momentum
  double largest_norm = 0;              // of the mean of all ranks' gradients; 0: gradients are not clipped
  uint32_t ranks = 1;
};

// Clips the gradient to largest_norm / sqrt(ranks); m = factor * m + gradient; v += m. Where the gradient is not
// finite, v becomes NaN and m stays, and no clipping takes place.
void add_gradient(const MomentumTask& task);

// Factor masking: what has been sent starts anew.
void clear_sent(std::span<const uint32_t> sent, std::span<float> momentum, std::span<float> velocity);

}  // namespace banyan::sparse
