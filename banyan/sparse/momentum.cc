#include "banyan/sparse/momentum.h"

#include <cmath>

#include "banyan/base/check.h"

namespace banyan::sparse {

void add_to_momentum(const MomentumTask& task) {
  CHECK(task.momentum.size() == task.gradient.size()) << task.momentum.size() << " " << task.gradient.size();
  float scale = 1;
  // Each rank clips its own gradient, since nobody has the mean yet.
  if (task.largest_norm > 0) {
    double squares = 0;
    for (const float value : task.gradient) squares += static_cast<double>(value) * static_cast<double>(value);
    const double share = task.largest_norm / std::sqrt(static_cast<double>(task.ranks)) / std::sqrt(squares);
    if (std::isfinite(squares) && share < 1) scale = static_cast<float>(share);
  }
  for (size_t i = 0; i < task.gradient.size(); ++i) {
    // A value that is not finite stays in the gradient, to be sent, and leaves the momentum alone.
    if (!std::isfinite(task.gradient[i])) continue;
    task.momentum[i] = task.factor * task.momentum[i] + scale * task.gradient[i];
    task.gradient[i] = task.momentum[i];
  }
}

void clear_sent(std::span<const uint32_t> sent, std::span<float> momentum) {
  for (const uint32_t i : sent) momentum[i] = 0;
}

}  // namespace banyan::sparse
