// The durations of a training step's pieces on one device, computed once per configuration; generator and estimate both
// take them from here, so that they cannot disagree.
#pragma once

#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/config.h"
#include "banyan/predict/train/layers.h"

namespace banyan::predict {

struct PassCosts {
  double seconds = 0;
  double fixed = 0;  // of these, what a faster device does not shorten
  double flop = 0;
};

struct BlockCosts {
  PassCosts forward, backward;  // backward includes what selective recomputation repeats
};

struct StepCosts {
  BlockCosts attention, mlp;  // mlp: the dense one, or the router in front of experts
  BlockCosts experts;         // zero for a dense model
  BlockCosts embedding, head;
};

// Throws Error{unsupported} when the device lacks the precision.
StepCosts step_costs(const TrainConfig& config, const Device& device);

// The optimizer on `parameters` that this rank updates.
PassCosts optimizer_costs(const TrainConfig& config, const Device& device, double parameters);

// Parameters that a rank of a stage updates: its share under ZeRO.
double updated_parameters(const TrainConfig& config, uint32_t stage);

}  // namespace banyan::predict
