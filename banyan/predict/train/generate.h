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
// and, with codes for gradients, on up to four more (generate_compressed_step).
//
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
#include "banyan/predict/codes/codec_cost.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/config.h"
#include "banyan/predict/train/step_costs.h"
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
  uint32_t ranks = 0;   // of the group
  uint32_t in_box = 0;  // of these, so many neighbours in each box; 0: there is no level between boxes for them
  double backward = 0;  // seconds that the compute stream is at work from those before until these are there; the first
                        // of a stage: from the beginning of the step
};
// The ranks of the job that reduce them together with the stage's first rank, in the order of the group.
std::vector<uint32_t> members_of(const TrainConfig& config, const ReducedGradients& gradients);

// The number of neighbouring replicas in a box of `box_ranks` consecutive ranks of the job: 2 or more, in several boxes
// that hold as many each. 0: boxes of 0 or 1, or all replicas in one box, or in boxes that differ.
uint32_t replicas_in_box(const TrainConfig& config, uint32_t box_ranks);

// A code for a bucket, everywhere, or between boxes only: then the bucket is reduce-scattered inside each box as it is,
// each rank's share is reduced across the boxes in the code, and the sum is gathered inside each box as it is. So each
// rank codes a share of the bucket only, and links inside boxes carry what they carry without a code.
//
// There is no such level if ReducedGradients::in_box is 0: for gradients of experts, whose groups leave ranks out; and
// with ZeRO, whose shards two reduce-scatters would give to other ranks than one that goes by the order of the group.
struct GradientCode {
  CodecCost cost;
  bool is_between_boxes = false;
};

// The code of each, by stage and in its order; nothing: as it is. Stages, or their ends, that are left out have none.
using GradientCodes = std::vector<std::vector<std::optional<GradientCode>>>;

// The coded part of a bucket: what a rank gives to the collective that carries the code, and the cost of coding it.
struct CodedPart {
  uint64_t elements = 0;  // of the bucket, or of a share of it
  uint64_t bytes = 0;     // coded
  uint32_t ranks = 0;     // of the collective
  PassCosts encode = {};  // of what other ranks own of the part
  PassCosts decode = {};  // adding up what it owns itself; unless it stays scattered, encoding that and decoding all
};
CodedPart coded_part(const ReducedGradients& gradients, const GradientCode& code);

// Cuts into buckets, by stage: the number of units (TrainingStep) of each bucket, in order; together they take all
// units. Stages that are left out or empty are cut by size.
using GradientCuts = std::vector<std::vector<uint32_t>>;

struct GradientPlan {
  GradientCodes codes = {};
  std::optional<Bytes> bucket = {};  // in place of TrainConfig::bucket
  GradientCuts cuts = {};            // where cuts_buckets(); those of experts are cut by size all the same
  uint32_t box_ranks = 0;            // so many consecutive ranks of the job stand in one box; 0: nothing is known of it
};

// True if gradients may be cut into buckets freely: they are reduced once a step, while the backward pass goes on.
bool cuts_buckets(const TrainConfig& config);

struct TrainingStep {
  Job job;
  std::vector<std::vector<ReducedGradients>> reduced;  // by stage
  // Units that no bucket divides, by stage, in the order of the backward pass: the gradients of a layer, of the output
  // layer, of the embedding; without those of experts. None if buckets cannot be cut otherwise.
  std::vector<std::vector<ReducedGradients>> units;
};

// With codes for gradients, and buckets as they are cut. A bucket with a code is encoded on the compute stream, which
// is as late for what follows; the collective carries the code; what is added, encoded again and decoded is one node
// behind it on a stream of its own ("coder"), as if slices did not overlap there, which is too much and not too little.
// Codes are of float32: gradients of two bytes count as float32 to them. Waiting for other stages is not in `backward`.
//
// The three collectives of a code between boxes have streams and groups of their own, so that those of a bucket in its
// box go on while another bucket crosses the boxes. Encoding waits for the reduce-scatter; the backward pass does not
// wait for it, but gives up as much of the device's time: so encoding stands twice, on the coder's stream behind the
// reduce-scatter, and on the compute stream where the bucket is there.
//
// A code between boxes for gradients that have no such level is a CHECK.
TrainingStep generate_compressed_step(const TrainConfig& config, const Device& device, const GradientPlan& plan);

}  // namespace banyan::predict
