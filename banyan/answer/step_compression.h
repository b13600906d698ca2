// Buckets of a training step's gradients that should be coded, and in which code: `banyan predict train --compress`.
//
// Candidates are: no code; each code for all buckets; and a code for each bucket, as the search of predict/codes
// finds it. If several replicas stand in one box, each code may also be used between boxes only
// (predict/train/generate.h): for all buckets, and in a second search. (Espresso's hierarchical options, EuroSys 2023,
// without those that code each level for itself.) If the backward pass goes on while buckets are reduced, there are two
// more candidates for no code and for the best of these codes: buckets of another size, one that `bucket_cap_mb` of
// DistributedDataParallel can say; and buckets cut anew, each for itself, as the exact programme of
// predict/codes/bucket_cuts.h cuts them. The whole step is simulated with each candidate, and the quickest counts:
// searches only propose. Among candidates that are as quick within 3 %, the first in the order of the table counts:
// buckets stay as they are if nothing is gained, and all have one size if cutting each for itself gains nothing. A code
// that loses more than predict/codes/code_rule.h allows is taken when it is asked for by name. Less than 3 % quicker
// than no code is no gain.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "banyan/answer/job_answer.h"
#include "banyan/answer/train_step.h"
#include "banyan/base/units.h"
#include "banyan/predict/train/generate.h"

namespace banyan::answer {

struct CompressedBucket {
  predict::ReducedGradients gradients;
  std::optional<codec::Codec> codec = {};
  bool is_between_boxes = false;
  uint64_t wire_bytes = 0;                      // of a code between boxes: of all shares of a box together
  double dense_seconds = 0, coded_seconds = 0;  // of its collectives alone; coded: with encoding and decoding
};

struct TriedCompression {
  // "none", "int8", "int8, between boxes", "by bucket", and of these but the last with other buckets:
  // "int8, buckets of 12 MiB", "int8, between boxes, buckets cut anew".
  std::string name;
  Picoseconds time{0};
};

// The buckets of a code as the exact programme cuts them.
struct CutBuckets {
  std::string code;                          // "none", "int8", "int8, between boxes"
  std::vector<std::vector<uint64_t>> bytes;  // of each bucket, by stage
  // One size for all buckets: of all whole MiB the one with which the programme's model ends soonest.
  Bytes cap{0};
  Picoseconds as_they_were{0}, with_cap{0}, anew{0};  // the step, simulated
};

struct StepCompression {
  std::vector<TriedCompression> tried;  // the first: none
  size_t best = 0;
  std::string why;
  std::vector<CompressedBucket> buckets;  // by stage, in their order
  std::vector<CutBuckets> cuts = {};      // of no code and of the best one; none where buckets cannot be cut otherwise
};

using RankGroups = std::vector<std::vector<uint32_t>>;  // ranks of the job

struct CompressionModel {
  // The time of collectives of a kind and size that these groups, and nobody else, begin at the same time.
  std::function<CollectiveLine(CollectiveKind, const RankGroups&, uint64_t bytes)> line;
  // The time of the step with these codes and buckets; nothing when that was interrupted.
  std::function<std::optional<Picoseconds>(const predict::GradientPlan&)> simulate;
  uint32_t box_ranks = 0;  // as in predict::GradientPlan
};

struct ChosenCompression {
  predict::GradientPlan plan;
  StepCompression table;
};
// Nothing when a simulation was interrupted. `dense`: the step without codes, by the model's boxes.
std::optional<ChosenCompression> choose_compression(const TrainSetup& setup, const predict::TrainingStep& dense,
                                                    const CompressionModel& model);

}  // namespace banyan::answer
