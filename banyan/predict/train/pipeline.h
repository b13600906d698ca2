// The order in which a pipeline stage carries out the forward and backward passes of its micro-batches.
//
// One chunk per stage: 1F1B (Narayanan et al. 2019, PipeDream-flush): stage i begins with min(p - 1 - i, m) forward
// passes, then alternates, then ends with backward passes. With v > 1 chunks per stage: the interleaved schedule
// (Narayanan et al. 2021, section 2.2, and Megatron-LM's schedules.py): chunk c of stage i is the c * p + i-th of the
// model; micro-batches go in groups of p through one chunk after the other; 2 (p - 1 - i) + (v - 1) p forward passes
// come first. With equal stages the bubble is (p - 1) / (v m) of the ideal time.
#pragma once

#include <cstdint>
#include <vector>

namespace banyan::predict {

struct PipelineStep {
  uint32_t micro_batch = 0;
  uint32_t chunk = 0;  // of this stage, 0 .. v - 1
  bool backward = false;
};

struct PipelineShape {
  uint32_t stages = 1, chunks = 1;  // chunks per stage
  uint32_t micro_batches = 1;       // with chunks > 1, a multiple of stages
};

std::vector<PipelineStep> pipeline_order(const PipelineShape& shape, uint32_t stage);

// Micro-batches times chunks whose activations a stage holds at most at once.
uint32_t most_in_flight(const PipelineShape& shape, uint32_t stage);

}  // namespace banyan::predict
