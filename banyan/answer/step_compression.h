// Which buckets of a training step's gradients should be coded, and how: `banyan predict train --compress`.
//
// Candidates are: no code; each code for all buckets; and a code for each bucket, as the search of predict/compress
// finds it. Of these the whole step is simulated, and the quickest counts: the search only proposes. A code that loses
// more than codec_choice.h allows is taken when it is asked for by name. Less than 3 % quicker than no code is no gain.
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
  uint64_t wire_bytes = 0;
  double dense_seconds = 0, coded_seconds = 0;  // of its collective alone; coded: with encoding and decoding
};

struct TriedCompression {
  std::string name;  // "none", "int8", "by bucket"
  Picoseconds time{0};
};

struct StepCompression {
  std::vector<TriedCompression> tried;  // the first: none
  size_t best = 0;
  std::string why;
  std::vector<CompressedBucket> buckets;  // by stage, in their order
};

struct CompressionModel {
  // What the collective of these takes alone.
  std::function<CollectiveLine(const predict::ReducedGradients&)> line;
  // The time of the step with these codes; nothing when that was interrupted.
  std::function<std::optional<Picoseconds>(const predict::GradientCodes&)> simulate;
};

struct ChosenCompression {
  predict::GradientCodes codes;
  StepCompression table;
};
// Nothing when a simulation was interrupted. `reduced`: of the step without codes.
std::optional<ChosenCompression> choose_compression(const TrainSetup& setup,
                                                    const std::vector<std::vector<predict::ReducedGradients>>& reduced,
                                                    const CompressionModel& model);

}  // namespace banyan::answer
