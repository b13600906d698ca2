#include "banyan/predict/train/config.h"

#include <array>

#include "banyan/base/error.h"
#include "banyan/job/job.h"

namespace banyan::predict {
namespace {

constexpr std::array<std::string_view, 3> kRecompute = {"none", "selective", "full"};
constexpr uint64_t kMaxMicroBatches = 1'000'000;
constexpr uint64_t kMaxPasses = 10'000'000;  // of a step: micro-batches times chunks of the model

std::string text(uint64_t number) { return std::to_string(number); }

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_input, message); }

void check_parallelism(const TrainConfig& config) {
  const TrainModel& model = config.model;
  if (config.tp == 0 || config.pp == 0 || config.dp == 0 || config.ep == 0 || config.interleave == 0)
    refuse("--tp, --pp, --dp, --ep and --interleave must be 1 or more");
  if (config.tp > Job::kMaxRanks || config.pp > Job::kMaxRanks || config.dp > Job::kMaxRanks ||
      config.ranks() > Job::kMaxRanks)
    refuse("tp * pp * dp is above the " + text(Job::kMaxRanks) + " ranks of a job");
  if (model.heads % config.tp != 0)
    refuse(text(model.heads) + " heads cannot be split over --tp " + text(config.tp) + "; choose a divisor");
  if (model.ffn % config.tp != 0)
    refuse("an MLP of width " + text(model.ffn) + " cannot be split over --tp " + text(config.tp));
  if (model.vocabulary < config.tp) refuse("--vocab is below --tp: some rank would have no words");
  if (uint64_t{config.pp} * config.interleave > model.layers)
    refuse(text(model.layers) + " layers are too few for --pp " + text(config.pp) +
           (config.interleave > 1 ? " with --interleave " + text(config.interleave) : "") + ": each chunk needs one");
  if (config.interleave > 1 && config.pp < 2) refuse("--interleave needs --pp 2 or more");
  if (config.sequence_parallel && config.tp < 2) refuse("--sequence-parallel needs --tp 2 or more");
  if (config.sequence_parallel && model.sequence % config.tp != 0)
    refuse("a sequence of " + text(model.sequence) + " cannot be split over --tp " + text(config.tp));
  if (config.dp % config.ep != 0) refuse("--ep " + text(config.ep) + " does not divide --dp " + text(config.dp));
  if (config.ep > 1 && (model.experts == 0 || model.experts % config.ep != 0))
    refuse(text(model.experts) + " experts cannot be spread over --ep " + text(config.ep));
  if (config.zero > 3) refuse("--zero is " + text(config.zero) + ", and goes from 0 to 3");
  if (config.zero >= 2 && config.pp > 1)
    refuse("--zero " + text(config.zero) +
           " shards gradients in every micro-batch, which pipelines do not combine with; use --zero 1 or --pp 1");
}

}  // namespace

std::string_view to_string(Recompute recompute) { return kRecompute[static_cast<size_t>(recompute)]; }

Recompute parse_recompute(std::string_view name) {
  for (size_t i = 0; i < kRecompute.size(); ++i) {
    if (kRecompute[i] == name) return static_cast<Recompute>(i);
  }
  refuse("'" + std::string(name.substr(0, 60)) + "' is no way to recompute; known are none, selective, full");
}

uint32_t TrainConfig::layers_of_chunk(uint32_t chunk) const {
  const uint32_t most = (model.layers + chunks() - 1) / chunks(), missing = most * chunks() - model.layers;
  // The chunk's place in the order last, first, last but one, second, ...
  const uint32_t from_end = chunks() - 1 - chunk;
  const uint32_t place = from_end <= chunk ? 2 * from_end : 2 * chunk + 1;
  return most - (place < missing ? 1 : 0);
}

uint32_t TrainConfig::layers_of_stage(uint32_t stage) const {
  uint32_t sum = 0;
  for (uint32_t chunk = stage; chunk < chunks(); chunk += pp) sum += layers_of_chunk(chunk);
  return sum;
}

void check_config(const TrainConfig& config) {
  check_model(config.model);
  check_parallelism(config);
  if (config.micro_batch == 0 || config.global_batch == 0 || config.global_batch > uint64_t{1} << 40 ||
      config.micro_batch > config.global_batch)
    refuse("--micro-batch must be 1 or more and not above --global-batch");
  const uint64_t together = config.micro_batch * config.dp;
  if (config.global_batch % together != 0)
    refuse("a --global-batch of " + text(config.global_batch) + " is no multiple of micro-batch times dp, " +
           text(together) + "; choose " + text((config.global_batch / together + 1) * together));
  if (config.micro_batches() > kMaxMicroBatches)
    refuse("a step has " + text(config.micro_batches()) + " micro-batches, more than the " + text(kMaxMicroBatches) +
           " that are supported");
  if (config.micro_batches() * config.chunks() > kMaxPasses)
    refuse("a step has " + text(config.micro_batches()) + " micro-batches through " + text(config.chunks()) +
           " chunks, more passes than the 10000000 that are supported; use a larger --micro-batch or more --dp");
  if (config.interleave > 1 && config.micro_batches() % config.pp != 0)
    refuse("--interleave needs micro-batches, " + text(config.micro_batches()) + ", in a multiple of --pp " +
           text(config.pp));
  if (config.bucket.count() == 0) refuse("--bucket must be above 0 bytes");
}

std::string describe(const TrainConfig& config) {
  std::string words = config.model.name + ", " + text(config.ranks()) + (config.ranks() == 1 ? " rank" : " ranks") +
                      ": tp " + text(config.tp) + ", pp " + text(config.pp) + ", dp " + text(config.dp);
  if (config.ep > 1) words += ", ep " + text(config.ep);
  words += "; micro-batch " + text(config.micro_batch) + ", global batch " + text(config.global_batch) + " (" +
           text(config.micro_batches()) + (config.micro_batches() == 1 ? " micro-batch)" : " micro-batches)");
  if (config.interleave > 1) words += ", interleaved " + text(config.interleave);
  if (config.sequence_parallel) words += ", sequence parallel";
  if (config.recompute != Recompute::none) words += ", recompute " + std::string(to_string(config.recompute));
  if (config.zero > 0) words += ", ZeRO " + text(config.zero);
  return words;
}

}  // namespace banyan::predict
