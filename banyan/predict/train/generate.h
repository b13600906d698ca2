// A training step as a Job: a program per pipeline stage, and groups for tensor, data, expert and pipeline parallelism.
//
// Program of a stage, on six streams:
//   compute           every block of every layer of every micro-batch, in the order of pipeline.h, with the
//                     tensor-parallel collectives in between: they stand on this stream because what follows needs
//                     them. Per layer and pass: allreduce behind each block (forward) or in front (backward); with
//                     sequence parallelism an allgather in front and a reduce-scatter behind; with experts an
//                     all-to-all on either side of them. Full recomputation repeats a layer's forward pass, collectives
//                     included, before its backward pass.
//   gradients         data-parallel collectives: buckets as they fill in the last micro-batch (overlap_gradients) or
//                     all in one after it; ZeRO 2 and 3 reduce-scatter in every micro-batch; ZeRO 3 allgathers each
//                     layer's parameters one layer ahead, in forward and backward passes
//   send and receive, forward and backward: between stages; asynchronous, in order
// At the end: reduction of a tied embedding between first and last stage; the norm of all gradients (allreduce of 8
// bytes); the optimizer; ZeRO 1 and 2 allgather the parameters.
//
// Launch-bound operators carry the host's time as their duration (operators.h). FLOPs stand in the nodes; their sum
// over all ranks equals the closed formulas of the literature (a test), exactly where tp divides the vocabulary.
//
// Size: about micro-batches * layers / pp * 10 nodes a stage. 16,384 ranks of a 405B model: 16 programs.
#pragma once

#include "banyan/job/job.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/config.h"

namespace banyan::predict {

struct TrainRank {
  uint32_t stage = 0, replica = 0, slice = 0;
};
TrainRank train_rank(const TrainConfig& config, uint32_t rank);
uint32_t rank_number(const TrainConfig& config, const TrainRank& rank);

// Throws what check_config and step_costs throw; Error{unsupported} for more than Job::kMaxNodes.
Job generate_training_step(const TrainConfig& config, const Device& device);

// FLOPs of all nodes of all ranks.
double total_flop(const Job& job);

}  // namespace banyan::predict
