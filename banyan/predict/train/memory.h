// Checks whether a training job fits into its devices' memory, and finds what would make it fit.
//
// States of parameters: Rajbhandari et al. 2020 (ZeRO), section 3.1: with K = 12 bytes of optimizer state for Adam in
// mixed precision and 2 + 2 for parameter and gradient (4 with gradients in fp32), of which ZeRO 1, 2, 3 shard the
// optimizer's, the gradient, too, and the parameter, too, over dp.
//
// Activations of a layer for one micro-batch, in bytes: Korthikanti et al. 2022 ("Reducing Activation Recomputation in
// Large Transformer Models"), table 2, for a GPT in 16 bits:
//   tensor parallel                               s b h (10 + 24/t + 5 a s / (h t))
//   tensor and sequence parallel                  s b h / t (34 + 5 a s / h)
//   ... and selective recomputation               without the term of 5 a s / h
//   full recomputation                            2 s b h   (and one layer's while it is computed again)
// A stage holds those of as many micro-batches as its pipeline has in flight there (their section 4.2.3); the first one
// holds embeddings' dropout masks, the last one the output layer's input and fp32 logits. For models that are no GPT,
// the same count of tensors is made from their shape; for a GPT it equals the formulas (a test).
#pragma once

#include <string>
#include <vector>

#include "banyan/predict/train/config.h"

namespace banyan::predict {

struct StageMemory {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0;  // bytes on one rank
  double all() const { return parameters + gradients + optimizer + activations; }
};

struct MemoryMend {
  std::string option;  // "--recompute selective"
  TrainConfig config;  // with it
};

struct MemoryReport {
  std::vector<StageMemory> stages;
  uint32_t worst = 0;  // the stage that needs most
  Bytes available;     // of the device, less what is kept back
  bool fits = false;
  std::vector<MemoryMend> mends;  // when it does not fit, mildest first; each alone makes it fit
};

// Kept back for the context of driver and libraries, and for fragmentation: 5 %, which is what allocators lose at best.
constexpr double kMemoryKeptBack = 0.05;

double layer_activation_bytes(
    const TrainConfig& config);  // of one layer and micro-batch, as kept for the backward pass
StageMemory stage_memory(const TrainConfig& config, uint32_t stage);
MemoryReport memory_report(const TrainConfig& config, const Device& device);

}  // namespace banyan::predict
