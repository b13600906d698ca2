// The published formulas of a GPT's size and work, an oracle of tests.
#pragma once

#include "banyan/predict/train/model.h"

namespace banyan::predict {

// Narayanan et al. 2021 ("Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC21),
// equation 2: parameters of a GPT; equation 3: FLOPs of a step over B sequences, with all activations recomputed (96)
// or none (72).
inline double narayanan_parameters(const GptShape& shape) {
  const double l = shape.layers, h = shape.hidden, v = shape.vocabulary, s = shape.sequence;
  return 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
}

inline double narayanan_flop(const GptShape& shape, double batch, bool recompute) {
  const double l = shape.layers, h = shape.hidden, v = shape.vocabulary, s = shape.sequence;
  // The output layer is computed once either way, so its share of 72 is a third larger than its share of 96.
  const double factor = recompute ? 96 : 72;
  return factor * batch * s * l * h * h * (1 + s / (6 * h) + v / ((recompute ? 16 : 12) * l * h));
}

}  // namespace banyan::predict
