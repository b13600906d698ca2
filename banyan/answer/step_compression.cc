#include "banyan/answer/step_compression.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "banyan/base/words.h"
#include "banyan/predict/codes/bucket_cuts.h"
#include "banyan/predict/codes/code_rule.h"
#include "banyan/predict/codes/option_choice.h"

namespace banyan::answer {
namespace {

using predict::CodecCost;
using predict::CodedPart;
using predict::GradientCode;
using predict::GradientCodes;
using predict::GradientPlan;
using predict::ReducedGradients;
using Stages = std::vector<std::vector<ReducedGradients>>;

double seconds_of(Picoseconds time) { return std::chrono::duration<double>(time).count(); }

std::string name_of(const GradientCode& code) {
  return to_string(code.cost.codec) + (code.is_between_boxes ? ", between boxes" : "");
}

CodecCost cost_for(const TrainSetup& setup, const codec::Codec& codec) {
  CodecCost cost = cost_on(setup.device, codec);
  if (setup.codec_speed) cost.speed = *setup.codec_speed;
  return cost;
}

// For a bucket, of a code for all: everywhere, where it has no level between boxes.
GradientCode code_for(const ReducedGradients& gradients, GradientCode code) {
  code.is_between_boxes &= gradients.in_box > 0;
  return code;
}

GradientCodes codes_for_all(const Stages& reduced, const GradientCode& code) {
  GradientCodes codes;
  for (const auto& stage : reduced) {
    codes.emplace_back();
    for (const ReducedGradients& each : stage) codes.back().emplace_back(code_for(each, code));
  }
  return codes;
}

bool has_boxes(const Stages& reduced) {
  return std::any_of(reduced.begin(), reduced.end(), [](const std::vector<ReducedGradients>& stage) {
    return std::any_of(stage.begin(), stage.end(), [](const ReducedGradients& each) { return each.in_box > 0; });
  });
}

// What its collectives take alone: of all replicas at once; and where there are boxes, inside one, and of all shares
// of a box at once between boxes.
struct LevelLines {
  CollectiveLine flat, scatter, between, gather;
};
LevelLines lines_of(const TrainSetup& setup, const ReducedGradients& gradients, const CompressionModel& model) {
  const std::vector<uint32_t> members = members_of(setup.config, gradients);
  LevelLines lines;
  const CollectiveKind kind = gradients.is_scattered ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  lines.flat = model.line(kind, {members}, gradients.bytes);
  if (gradients.in_box == 0) return lines;
  const RankGroups box = {{members.begin(), members.begin() + gradients.in_box}};
  RankGroups of_place(gradients.in_box);
  for (size_t i = 0; i < members.size(); ++i) of_place[i % gradients.in_box].push_back(members[i]);
  lines.scatter = model.line(CollectiveKind::reduce_scatter, box, gradients.bytes);
  lines.gather = model.line(CollectiveKind::all_gather, box, gradients.bytes);
  lines.between =
      model.line(CollectiveKind::all_reduce, of_place, std::max<uint64_t>(1, gradients.bytes / gradients.in_box));
  return lines;
}

constexpr uint32_t kLinks = 1, kCoder = 2, kBoxLinks = 3;

predict::BucketStage on_links(const CollectiveLine& line, double share) {
  return {line.is_in_box ? kBoxLinks : kLinks, line.fixed, line.per_byte * share};
}

// What becomes of a bucket of this stage, per byte of the gradients as they are: buckets differ in their size and
// little else, so the largest stands for all. A collective holds the links of one level here, where its busiest is.
predict::BucketOption option_of(const ReducedGradients& largest, const GradientCode& code, const LevelLines& lines) {
  const CodedPart part = coded_part(largest, code);
  const auto bytes = static_cast<double>(largest.bytes);
  const auto work = [&](uint32_t resource, const predict::PassCosts& cost) {
    return predict::BucketStage{resource, cost.fixed, (cost.seconds - cost.fixed) / bytes};
  };
  const double share = static_cast<double>(part.bytes) / bytes;
  predict::BucketOption option{.name = name_of(code)};
  const auto then = [&](const predict::BucketStage& stage) { option.stages.push_back(stage); };
  if (code.is_between_boxes) {
    option.aside = work(predict::kBackwardPass, part.encode);
    then(on_links(lines.scatter, 1));
    then(work(kCoder, part.encode));
    then(on_links(lines.between, share));
    then(work(kCoder, part.decode));
    then(on_links(lines.gather, 1));
  } else {
    then(work(predict::kBackwardPass, part.encode));
    then(on_links(lines.flat, share));
    then(work(kCoder, part.decode));
  }
  return option;
}

// Stages do not share links in this model.
GradientCodes codes_by_bucket(const TrainSetup& setup, const Stages& reduced, const std::vector<GradientCode>& all,
                              const CompressionModel& model) {
  GradientCodes codes;
  for (const auto& stage : reduced) {
    std::vector<std::optional<GradientCode>>& of_stage = codes.emplace_back(stage.size());
    if (stage.empty()) continue;
    const ReducedGradients& largest =
        *std::max_element(stage.begin(), stage.end(),
                          [](const ReducedGradients& a, const ReducedGradients& b) { return a.bytes < b.bytes; });
    const LevelLines lines = lines_of(setup, largest, model);
    std::vector<predict::BucketOption> options = {{.name = "none", .stages = {on_links(lines.flat, 1)}}};
    for (const GradientCode& code : all) options.push_back(option_of(largest, code_for(largest, code), lines));
    std::vector<predict::GradientBucket> buckets;
    for (const ReducedGradients& each : stage)
      buckets.push_back({.bytes = static_cast<double>(each.bytes), .backward = each.backward});
    const predict::OptionChoice choice = choose_options(buckets, options);
    for (size_t bucket = 0; bucket < stage.size(); ++bucket) {
      if (choice.options[bucket] > 0) of_stage[bucket] = code_for(stage[bucket], all[choice.options[bucket] - 1]);
    }
  }
  return codes;
}

// ---- How buckets are cut ----

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

// Stages whose gradients are not reduced have no units. Of a code between boxes, its link is that of the level that a
// bucket holds longer.
std::vector<StageToCut> stages_to_cut(const TrainSetup& setup, const predict::TrainingStep& dense,
                                      const std::optional<GradientCode>& code, const CompressionModel& model) {
  std::vector<StageToCut> stages(dense.units.size());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const ReducedGradients* const largest = largest_dense(dense.reduced[stage]);
    if (largest == nullptr) continue;
    for (const ReducedGradients& unit : dense.units[stage]) {
      stages[stage].units.push_back({.bytes = static_cast<double>(unit.bytes), .backward = unit.backward});
    }
    const LevelLines lines = lines_of(setup, *largest, model);
    predict::CutCosts& costs = stages[stage].costs;
    costs = {.link_fixed = lines.flat.fixed, .link_per_byte = lines.flat.per_byte};
    if (!code) continue;
    const auto bytes = static_cast<double>(largest->bytes);
    const GradientCode own = code_for(*largest, *code);
    const CodedPart part = coded_part(*largest, own);
    costs.encode_fixed = part.encode.fixed;
    costs.encode_per_byte = (part.encode.seconds - part.encode.fixed) / bytes;
    if (own.is_between_boxes) costs.link_fixed = lines.between.fixed, costs.link_per_byte = lines.between.per_byte;
    costs.link_per_byte *= static_cast<double>(part.bytes) / bytes;
    const CollectiveLine box{.fixed = lines.scatter.fixed + lines.gather.fixed,
                             .per_byte = lines.scatter.per_byte + lines.gather.per_byte};
    if (own.is_between_boxes && box.seconds(bytes) > costs.link_fixed + costs.link_per_byte * bytes)
      costs.link_fixed = box.fixed, costs.link_per_byte = box.per_byte;
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
  std::optional<GradientCode> code = {};  // of all buckets
  GradientPlan plan = {};
  Picoseconds time{0};
};

GradientPlan plan_with(const TrainSetup& setup, GradientPlan cut, const std::optional<GradientCode>& code) {
  if (!code) return cut;
  cut.codes = codes_for_all(generate_compressed_step(setup.config, setup.device, cut).reduced, *code);
  return cut;
}

// A cap for all, and a cut for each, for one code.
struct Recut {
  CutBuckets table;
  Candidate with_cap, anew;
};
Recut recut(const TrainSetup& setup, const predict::TrainingStep& dense, const Candidate& of,
            const CompressionModel& model) {
  const std::vector<StageToCut> stages = stages_to_cut(setup, dense, of.code, model);
  Recut recut{.table = {.code = of.name, .bytes = {}, .cap = best_cap(stages)}, .with_cap = {}, .anew = {}};
  recut.table.as_they_were = of.time;
  GradientPlan anew{.box_ranks = model.box_ranks};
  for (const StageToCut& stage : stages) {
    anew.cuts.push_back(stage.units.empty() ? std::vector<uint32_t>() : cut_buckets(stage.units, stage.costs).sizes);
    std::vector<uint64_t>& bytes = recut.table.bytes.emplace_back();
    for (const predict::GradientBucket& bucket : joined(stage.units, anew.cuts.back())) {
      bytes.push_back(static_cast<uint64_t>(bucket.bytes));
    }
  }
  const GradientPlan with_cap{.bucket = recut.table.cap, .box_ranks = model.box_ranks};
  recut.with_cap = {.name = of.name + ", buckets of " + recut.table.cap.to_string(),
                    .code = of.code,
                    .plan = plan_with(setup, with_cap, of.code)};
  recut.anew = {
      .name = of.name + ", buckets cut anew", .code = of.code, .plan = plan_with(setup, std::move(anew), of.code)};
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
    const bool is_named = wish.choice == CodecWish::Choice::by_name;
    std::vector<GradientCode> codes;
    for (const std::optional<codec::Codec>& codec : wish.codecs) {
      if (!codec || (!is_named && predict::relative_loss(*codec) > predict::kMostLossOfAuto)) continue;
      codes.push_back({.cost = cost_for(setup_, *codec)});
      if (!has_boxes(dense_.reduced)) continue;
      codes.push_back({.cost = codes.back().cost, .is_between_boxes = true});
    }
    add("none", {});
    for (const GradientCode& code : codes) add(name_of(code), codes_for_all(dense_.reduced, code), code);
    for (Candidate& each : all_) {
      if (!simulate(each)) return false;
    }
    if (!is_named && !add_by_bucket(codes)) return false;
    if (codes.empty() || !cuts_buckets(setup_.config)) return true;
    std::vector<size_t> coded(codes.size());
    std::iota(coded.begin(), coded.end(), size_t{1});
    return cut_anew(first_of_the_quickest(all_, coded)) && cut_anew(0);
  }
  std::vector<Candidate>& all() { return all_; }
  std::vector<CutBuckets>& cuts() { return cuts_; }

 private:
  bool simulate(Candidate& candidate) const {
    const std::optional<Picoseconds> time = model_.simulate(candidate.plan);
    if (time) candidate.time = *time;
    return time.has_value();
  }
  void add(std::string name, GradientCodes codes, std::optional<GradientCode> code = {}) {
    all_.push_back({.name = std::move(name),
                    .code = std::move(code),
                    .plan = {.codes = std::move(codes), .box_ranks = model_.box_ranks}});
  }
  // The quicker of what is found among codes on all hops and among those of both levels: with more options the search
  // may propose what its model, whose levels share no link, thinks too well of.
  bool add_by_bucket(const std::vector<GradientCode>& codes) {
    std::vector<GradientCode> everywhere;
    std::copy_if(codes.begin(), codes.end(), std::back_inserter(everywhere),
                 [](const GradientCode& code) { return !code.is_between_boxes; });
    add("by bucket", codes_by_bucket(setup_, dense_.reduced, everywhere, model_));
    if (!simulate(all_.back())) return false;
    if (everywhere.size() == codes.size()) return true;
    add("by bucket", codes_by_bucket(setup_, dense_.reduced, codes, model_));
    if (!simulate(all_.back())) return false;
    all_.erase(all_.end() - (all_.back().time < all_[all_.size() - 2].time ? 2 : 1));
    return true;
  }
  bool cut_anew(size_t place) {
    Recut recut = answer::recut(setup_, dense_, all_[place], model_);
    if (!simulate(recut.with_cap) || !simulate(recut.anew)) return false;
    recut.table.with_cap = recut.with_cap.time, recut.table.anew = recut.anew.time;
    cuts_.insert(cuts_.begin(), std::move(recut.table));
    const auto at = all_.begin() + static_cast<ptrdiff_t>(place + 1);
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

CompressedBucket bucket_of(const ReducedGradients& gradients, const std::optional<GradientCode>& code,
                           const LevelLines& lines) {
  const auto bytes = static_cast<double>(gradients.bytes);
  CompressedBucket bucket{.gradients = gradients, .wire_bytes = gradients.bytes};
  bucket.dense_seconds = bucket.coded_seconds = lines.flat.seconds(bytes);
  if (!code) return bucket;
  const CodedPart part = coded_part(gradients, *code);
  bucket.codec = code->cost.codec;
  bucket.is_between_boxes = code->is_between_boxes;
  bucket.wire_bytes = part.bytes * (code->is_between_boxes ? gradients.in_box : 1);
  const auto coded = static_cast<double>(part.bytes);
  bucket.coded_seconds = part.encode.seconds + part.decode.seconds;
  bucket.coded_seconds +=
      code->is_between_boxes ? lines.scatter.seconds(bytes) + lines.between.seconds(coded) + lines.gather.seconds(bytes)
                             : lines.flat.seconds(coded);
  return bucket;
}

std::vector<CompressedBucket> buckets_of(const TrainSetup& setup, const GradientCodes& codes, const Stages& reduced,
                                         const CompressionModel& model) {
  std::vector<CompressedBucket> buckets;
  for (size_t stage = 0; stage < reduced.size(); ++stage) {
    for (size_t i = 0; i < reduced[stage].size(); ++i) {
      const bool may_be_coded = stage < codes.size() && i < codes[stage].size();
      buckets.push_back(bucket_of(reduced[stage][i], may_be_coded ? codes[stage][i] : std::optional<GradientCode>(),
                                  lines_of(setup, reduced[stage][i], model)));
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
  table.buckets =
      buckets_of(setup, plan.codes, generate_compressed_step(setup.config, setup.device, plan).reduced, model);
  return ChosenCompression{.plan = std::move(plan), .table = std::move(table)};
}

}  // namespace banyan::answer
