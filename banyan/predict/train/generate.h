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

#include <optional>
#include <vector>

#include "banyan/job/job.h"
#include "banyan/predict/cost/codec_cost.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/config.h"
#include "banyan/predict/train/step_groups.h"

namespace banyan::predict {

// Throws what check_config and step_costs throw; Error{unsupported} for more than Job::kMaxNodes.
Job generate_training_step(const TrainConfig& config, const Device& device);

// Gradients that a rank of a stage reduces together over its replicas.
struct ReducedGradients {
  uint32_t stage = 0;
  bool is_of_experts = false;
  bool is_scattered = false;  // ZeRO: a reduce-scatter, else an allreduce
  uint64_t elements = 0;
  uint64_t bytes = 0;   // as they are, without a code
  uint32_t ranks = 0;   // of the group; its number in the job:
  uint32_t group = 0;   // that of the stage's first rank
  double backward = 0;  // seconds that the compute stream is at work from those before until these are there; the first
                        // of a stage: from the beginning of the step
};

// The code of each, by stage and in its order; nothing: as it is. Stages, or their ends, that are left out have none.
using GradientCodes = std::vector<std::vector<std::optional<CodecCost>>>;

// How buckets are cut: by stage, of how many units (TrainingStep) each takes, in their order, all of them together.
// Stages that are left out or empty are cut by size.
using GradientCuts = std::vector<std::vector<uint32_t>>;

struct GradientPlan {
  GradientCodes codes = {};
  std::optional<Bytes> bucket = {};  // in place of TrainConfig::bucket
  GradientCuts cuts = {};            // where cuts_buckets(); those of experts are cut by size all the same
};

// Whether it is free how gradients are cut into buckets: they are reduced once a step, while the backward pass goes on.
bool cuts_buckets(const TrainConfig& config);

struct TrainingStep {
  Job job;
  std::vector<std::vector<ReducedGradients>> reduced;  // by stage
  // By stage, in the order of the backward pass: what no bucket divides, the gradients of a layer, of the output layer,
  // of the embedding; without those of experts. None where buckets cannot be cut otherwise.
  std::vector<std::vector<ReducedGradients>> units;
};

// With codes for gradients, and buckets as they are cut. A bucket with a code is encoded on the compute stream, which
// is as late for what follows; the collective carries the code; what is added, encoded again and decoded is one node
// behind it on a stream of its own, as if slices did not overlap there, which is too much and not too little. Codes are
// of float32: gradients of two bytes count as float32 to them. Waiting for other stages is not in `backward`.
TrainingStep generate_compressed_step(const TrainConfig& config, const Device& device, const GradientPlan& plan);

// FLOPs of all nodes of all ranks.
double total_flop(const Job& job);

}  // namespace banyan::predict
