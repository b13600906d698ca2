#include "banyan/answer/step_compression.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "banyan/base/words.h"
#include "banyan/predict/compress/bucket_cuts.h"
#include "banyan/predict/compress/code_rule.h"
#include "banyan/predict/compress/option_choice.h"

namespace banyan::answer {
namespace {

using predict::CodecCost;
using predict::GradientCodes;
using predict::GradientPlan;
using predict::ReducedGradients;

double seconds_of(Picoseconds time) { return std::chrono::duration<double>(time).count(); }

CodecCost cost_for(const TrainSetup& setup, const codec::Codec& codec) {
  CodecCost cost = cost_on(setup.device, codec);
  if (setup.codec_speed) cost.speed = *setup.codec_speed;
  return cost;
}

// What generate.cc makes of a bucket.
struct Work {
  double encode = 0, decode = 0;
};
Work work_of(const ReducedGradients& gradients, const CodecCost& code) {
  const double bytes = static_cast<double>(gradients.elements) * sizeof(float);
  const double others = bytes * (1 - 1.0 / gradients.ranks), own = bytes - others;
  const double launch = seconds_of(code.launch);
  Work work{.encode = others * code.speed.encode + launch, .decode = others * code.speed.decode_add + launch};
  if (!gradients.is_scattered) work.decode += own * code.speed.encode + bytes * code.speed.decode + 2 * launch;
  return work;
}

GradientCodes codes_for_all(const std::vector<std::vector<ReducedGradients>>& reduced, const CodecCost& code) {
  GradientCodes codes;
  for (const auto& stage : reduced) codes.emplace_back(stage.size(), code);
  return codes;
}

constexpr uint32_t kLinks = 1, kDecoder = 2;

// Stages do not share links in this model.
GradientCodes codes_by_bucket(const std::vector<std::vector<ReducedGradients>>& reduced,
                              const std::vector<CodecCost>& codecs, const CompressionModel& model) {
  GradientCodes codes;
  for (const auto& stage : reduced) {
    std::vector<std::optional<CodecCost>>& of_stage = codes.emplace_back(stage.size());
    if (stage.empty()) continue;
    // Options are by byte of the gradients as they are; buckets of one stage differ in their size and little else.
    const ReducedGradients& largest =
        *std::max_element(stage.begin(), stage.end(),
                          [](const ReducedGradients& a, const ReducedGradients& b) { return a.bytes < b.bytes; });
    const CollectiveLine line = model.line(largest);
    const auto bytes = static_cast<double>(largest.bytes);
    std::vector<predict::BucketOption> options = {{.name = "none", .stages = {{kLinks, line.fixed, line.per_byte}}}};
    for (const CodecCost& code : codecs) {
      const Work work = work_of(largest, code);
      const double launch = seconds_of(code.launch), launches = largest.is_scattered ? 1 : 3;
      const double share = static_cast<double>(coded_bytes(code.codec, largest.elements)) / bytes;
      options.push_back({.name = to_string(code.codec),
                         .stages = {{predict::kBackwardPass, launch, (work.encode - launch) / bytes},
                                    {kLinks, line.fixed, line.per_byte * share},
                                    {kDecoder, launches * launch, (work.decode - launches * launch) / bytes}}});
    }
    std::vector<predict::GradientBucket> buckets;
    for (const ReducedGradients& each : stage)
      buckets.push_back({.bytes = static_cast<double>(each.bytes), .backward = each.backward});
    const predict::OptionChoice choice = choose_options(buckets, options);
    for (size_t bucket = 0; bucket < stage.size(); ++bucket) {
      if (choice.options[bucket] > 0) of_stage[bucket] = codecs[choice.options[bucket] - 1];
    }
  }
  return codes;
}

// ---- How buckets are cut ----

using Stages = std::vector<std::vector<ReducedGradients>>;

const ReducedGradients* largest_dense(const std::vector<ReducedGradients>& reduced) {
  const ReducedGradients* largest = nullptr;
  for (const ReducedGradients& each : reduced) {
    if (!each.is_of_experts && (largest == nullptr || each.bytes > largest->bytes)) largest = &each;
  }
  return largest;
}

// Of one stage, as the programme sees it.
struct StageToCut {
  std::vector<predict::GradientBucket> units;
  predict::CutCosts costs;
};

// `code`: null for none. Stages whose gradients are not reduced have no units.
std::vector<StageToCut> stages_to_cut(const predict::TrainingStep& dense, const CodecCost* code,
                                      const CompressionModel& model) {
  std::vector<StageToCut> stages(dense.units.size());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const ReducedGradients* const largest = largest_dense(dense.reduced[stage]);
    if (largest == nullptr) continue;
    for (const ReducedGradients& unit : dense.units[stage]) {
      stages[stage].units.push_back({.bytes = static_cast<double>(unit.bytes), .backward = unit.backward});
    }
    const CollectiveLine line = model.line(*largest);
    predict::CutCosts& costs = stages[stage].costs;
    costs = {.link_fixed = line.fixed, .link_per_byte = line.per_byte};
    if (code == nullptr) continue;
    const auto bytes = static_cast<double>(largest->bytes);
    costs.encode_fixed = seconds_of(code->launch);
    costs.encode_per_byte = (work_of(*largest, *code).encode - costs.encode_fixed) / bytes;
    costs.link_per_byte *= static_cast<double>(coded_bytes(code->codec, largest->elements)) / bytes;
  }
  return stages;
}

// As DistributedDataParallel cuts by one size for all: a bucket ends where it has reached it.
std::vector<uint32_t> cut_by_size(const std::vector<predict::GradientBucket>& units, double cap) {
  std::vector<uint32_t> sizes;
  double bytes = 0;
  for (const predict::GradientBucket& unit : units) {
    if (bytes == 0) sizes.push_back(0);
    ++sizes.back();
    bytes += unit.bytes;
    if (bytes >= cap) bytes = 0;
  }
  return sizes;
}

// Until the backward pass and the link are done, in the model of the programme.
double seconds_of_cut(const StageToCut& stage, const std::vector<uint32_t>& sizes) {
  double late = 0, ready = 0, free_at = 0;
  for (const predict::GradientBucket& bucket : joined(stage.units, sizes)) {
    late += stage.costs.encode_fixed + stage.costs.encode_per_byte * bucket.bytes;
    ready += bucket.backward;
    free_at = std::max(ready + late, free_at) + stage.costs.link_fixed + stage.costs.link_per_byte * bucket.bytes;
  }
  return free_at;
}

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// In whole MiB, as DistributedDataParallel is told: of all sizes that some bucket has, that by which the slowest stage
// ends soonest; of equal ones the least. O(units^3) a stage.
Bytes best_cap(const std::vector<StageToCut>& stages) {
  std::set<uint64_t> caps;
  for (const StageToCut& stage : stages) {
    for (size_t begin = 0; begin < stage.units.size(); ++begin) {
      double bytes = 0;
      for (size_t end = begin; end < stage.units.size(); ++end) {
        bytes += stage.units[end].bytes;
        caps.insert(std::max<uint64_t>(1, static_cast<uint64_t>(bytes) / kMebibyte));
      }
    }
  }
  uint64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (const uint64_t cap : caps) {
    double seconds = 0;
    for (const StageToCut& stage : stages) {
      if (stage.units.empty()) continue;
      seconds =
          std::max(seconds, seconds_of_cut(stage, cut_by_size(stage.units, static_cast<double>(cap * kMebibyte))));
    }
    if (seconds < least) best = cap, least = seconds;
  }
  return Bytes(best * kMebibyte);
}

struct Candidate {
  std::string name;
  GradientPlan plan;
  Picoseconds time{0};
};

GradientPlan plan_with(const TrainSetup& setup, GradientPlan cut, const CodecCost* code) {
  if (code == nullptr) return cut;
  cut.codes = codes_for_all(generate_compressed_step(setup.config, setup.device, cut).reduced, *code);
  return cut;
}

// A cap for all, and a cut for each, for one code.
struct Recut {
  CutBuckets table;
  Candidate with_cap, anew;
};
Recut recut(const TrainSetup& setup, const predict::TrainingStep& dense, const CodecCost* code,
            const CompressionModel& model) {
  const std::vector<StageToCut> stages = stages_to_cut(dense, code, model);
  const std::string name = code == nullptr ? "none" : to_string(code->codec);
  Recut recut{.table = {.code = name, .bytes = {}, .cap = best_cap(stages)}, .with_cap = {}, .anew = {}};
  GradientPlan anew;
  for (const StageToCut& stage : stages) {
    anew.cuts.push_back(stage.units.empty() ? std::vector<uint32_t>() : cut_buckets(stage.units, stage.costs).sizes);
    std::vector<uint64_t>& bytes = recut.table.bytes.emplace_back();
    for (const predict::GradientBucket& bucket : joined(stage.units, anew.cuts.back())) {
      bytes.push_back(static_cast<uint64_t>(bucket.bytes));
    }
  }
  recut.with_cap = {.name = name + ", buckets of " + recut.table.cap.to_string(),
                    .plan = plan_with(setup, {.bucket = recut.table.cap}, code)};
  recut.anew = {.name = name + ", buckets cut anew", .plan = plan_with(setup, std::move(anew), code)};
  return recut;
}

std::string gain_in_words(Picoseconds dense, Picoseconds coded) {
  return format_decimals(seconds_of(dense) / seconds_of(coded), 2) + " times as quick as without";
}

// Of these, the quickest; within 3 % of it the first.
size_t first_of_the_quickest(const std::vector<Candidate>& all, std::span<const size_t> among) {
  Picoseconds least = all[among.front()].time;
  for (const size_t i : among) least = std::min(least, all[i].time);
  return *std::find_if(among.begin(), among.end(), [&](size_t i) {
    return seconds_of(all[i].time) <= seconds_of(least) * (1 + predict::kLeastGainOfCode);
  });
}

// Simulates all candidates, those of other cuts behind no code and behind the code of which they are. False when a
// simulation was interrupted.
class Trial {
 public:
  Trial(const TrainSetup& setup, const predict::TrainingStep& dense, const CompressionModel& model)
      : setup_(setup), dense_(dense), model_(model) {}

  bool run() {
    const CodecWish& wish = *setup_.compress;
    std::vector<CodecCost> codecs;
    all_.push_back({.name = "none", .plan = {}});
    for (const std::optional<codec::Codec>& codec : wish.codecs) {
      const bool is_named = wish.choice == CodecWish::Choice::by_name;
      if (!codec || (!is_named && predict::relative_loss(*codec) > predict::kMostLossOfAuto)) continue;
      codecs.push_back(cost_for(setup_, *codec));
      all_.push_back({.name = to_string(*codec), .plan = {.codes = codes_for_all(dense_.reduced, codecs.back())}});
    }
    if (wish.choice == CodecWish::Choice::by_rule) {
      all_.push_back({.name = "by bucket", .plan = {.codes = codes_by_bucket(dense_.reduced, codecs, model_)}});
    }
    for (Candidate& each : all_) {
      if (!simulate(each)) return false;
    }
    if (codecs.empty() || !cuts_buckets(setup_.config)) return true;
    std::vector<size_t> coded(codecs.size());
    std::iota(coded.begin(), coded.end(), size_t{1});
    const size_t best = first_of_the_quickest(all_, coded);
    return cut_anew(&codecs[best - 1], all_[best].time, best + 1) && cut_anew(nullptr, all_.front().time, 1);
  }
  std::vector<Candidate>& all() { return all_; }
  std::vector<CutBuckets>& cuts() { return cuts_; }

 private:
  bool simulate(Candidate& candidate) const {
    const std::optional<Picoseconds> time = model_.simulate(candidate.plan);
    if (time) candidate.time = *time;
    return time.has_value();
  }
  bool cut_anew(const CodecCost* code, Picoseconds as_they_were, size_t place) {
    Recut recut = answer::recut(setup_, dense_, code, model_);
    if (!simulate(recut.with_cap) || !simulate(recut.anew)) return false;
    recut.table.as_they_were = as_they_were;
    recut.table.with_cap = recut.with_cap.time, recut.table.anew = recut.anew.time;
    cuts_.insert(cuts_.begin(), std::move(recut.table));
    const auto at = all_.begin() + static_cast<ptrdiff_t>(place);
    all_.insert(all_.insert(at, std::move(recut.anew)), std::move(recut.with_cap));
    return true;
  }

  const TrainSetup& setup_;
  const predict::TrainingStep& dense_;
  const CompressionModel& model_;
  std::vector<Candidate> all_;
  std::vector<CutBuckets> cuts_;
};

// Sets `best` and `why`.
void choose(StepCompression& table, const std::vector<Candidate>& all, const CodecWish& wish) {
  const Picoseconds dense = all.front().time;
  std::vector<size_t> among;
  if (wish.choice == CodecWish::Choice::by_name) {
    const std::string code = wish.is_dense() ? "none" : to_string(*wish.codecs.back());
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].name == code || all[i].name.starts_with(code + ", ")) among.push_back(i);
    }
    table.best = first_of_the_quickest(all, among);
    table.why = "as asked for";
    if (table.best > 0) table.why += ", " + gain_in_words(dense, all[table.best].time);
    return;
  }
  for (size_t i = 0; i < all.size(); ++i) among.push_back(i);
  const auto quickest =
      std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  if (seconds_of(quickest->time) > seconds_of(dense) * (1 - predict::kLeastGainOfCode)) {
    table.why = quickest == all.begin() ? "do not compress: every code makes the step longer"
                                        : "do not compress: " + quickest->name + ", the quickest, is only " +
                                              gain_in_words(dense, quickest->time);
    return;
  }
  // Of those that are as quick within 3 %, the first, which loses least; a code for all before one for each.
  table.best = first_of_the_quickest(all, among);
  table.why = gain_in_words(dense, all[table.best].time);
}

std::vector<CompressedBucket> buckets_of(const GradientCodes& codes, const Stages& reduced,
                                         const CompressionModel& model) {
  std::vector<CompressedBucket> buckets;
  for (size_t stage = 0; stage < reduced.size(); ++stage) {
    for (size_t i = 0; i < reduced[stage].size(); ++i) {
      const ReducedGradients& gradients = reduced[stage][i];
      const CollectiveLine line = model.line(gradients);
      CompressedBucket bucket{.gradients = gradients, .wire_bytes = gradients.bytes};
      bucket.dense_seconds = bucket.coded_seconds = line.fixed + line.per_byte * static_cast<double>(gradients.bytes);
      if (stage < codes.size() && i < codes[stage].size() && codes[stage][i]) {
        const CodecCost& code = *codes[stage][i];
        const Work work = work_of(gradients, code);
        bucket.codec = code.codec;
        bucket.wire_bytes = coded_bytes(code.codec, gradients.elements);
        bucket.coded_seconds =
            work.encode + line.fixed + line.per_byte * static_cast<double>(bucket.wire_bytes) + work.decode;
      }
      buckets.push_back(bucket);
    }
  }
  return buckets;
}

}  // namespace

std::optional<ChosenCompression> choose_compression(const TrainSetup& setup, const predict::TrainingStep& dense,
                                                    const CompressionModel& model) {
  Trial trial(setup, dense, model);
  if (!trial.run()) return std::nullopt;
  StepCompression table;
  for (const Candidate& each : trial.all()) table.tried.push_back({.name = each.name, .time = each.time});
  table.cuts = std::move(trial.cuts());
  choose(table, trial.all(), *setup.compress);
  GradientPlan plan = std::move(trial.all()[table.best].plan);
  table.buckets = buckets_of(plan.codes, generate_compressed_step(setup.config, setup.device, plan).reduced, model);
  return ChosenCompression{.plan = std::move(plan), .table = std::move(table)};
}

}  // namespace banyan::answer
