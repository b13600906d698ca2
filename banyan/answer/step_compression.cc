#include "banyan/answer/step_compression.h"

#include <algorithm>
#include <set>

#include "banyan/base/words.h"
#include "banyan/predict/compress/code_rule.h"
#include "banyan/predict/compress/option_choice.h"

namespace banyan::answer {
namespace {

using predict::CodecCost;
using predict::GradientCodes;
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

std::string gain_in_words(Picoseconds dense, Picoseconds coded) {
  return format_decimals(seconds_of(dense) / seconds_of(coded), 2) + " times as quick as without";
}

}  // namespace

std::optional<ChosenCompression> choose_compression(const TrainSetup& setup,
                                                    const std::vector<std::vector<ReducedGradients>>& reduced,
                                                    const CompressionModel& model) {
  const CodecWish& wish = *setup.compress;
  std::vector<GradientCodes> tried = {{}};
  StepCompression table{.tried = {{.name = "none"}}, .best = 0, .why = {}, .buckets = {}};
  std::vector<CodecCost> codecs;
  for (const std::optional<codec::Codec>& codec : wish.codecs) {
    const bool is_named = wish.choice == CodecWish::Choice::by_name;
    if (!codec || (!is_named && predict::relative_loss(*codec) > predict::kMostLossOfAuto)) continue;
    codecs.push_back(cost_for(setup, *codec));
    tried.push_back(codes_for_all(reduced, codecs.back()));
    table.tried.push_back({.name = to_string(*codec)});
  }
  if (wish.choice == CodecWish::Choice::by_rule) {
    tried.push_back(codes_by_bucket(reduced, codecs, model));
    table.tried.push_back({.name = "by bucket"});
  }
  for (size_t i = 0; i < tried.size(); ++i) {
    const std::optional<Picoseconds> time = model.simulate(tried[i]);
    if (!time) return std::nullopt;
    table.tried[i].time = *time;
  }
  const Picoseconds dense = table.tried.front().time;
  if (wish.choice == CodecWish::Choice::by_name) {
    table.best = tried.size() - 1;
    table.why = "as asked for";
    if (table.best > 0) table.why += ", " + gain_in_words(dense, table.tried.back().time);
  } else {
    const auto quickest =
        std::min_element(table.tried.begin(), table.tried.end(),
                         [](const TriedCompression& a, const TriedCompression& b) { return a.time < b.time; });
    if (seconds_of(quickest->time) > seconds_of(dense) * (1 - predict::kLeastGainOfCode)) {
      table.why = quickest == table.tried.begin() ? "do not compress: every code makes the step longer"
                                                  : "do not compress: " + quickest->name + ", the quickest, is only " +
                                                        gain_in_words(dense, quickest->time);
    } else {
      // Of those that are as quick within 3 %, the first, which loses least; a code for all before one for each.
      table.best = static_cast<size_t>(quickest - table.tried.begin());
      for (size_t i = 1; i < tried.size(); ++i) {
        if (seconds_of(table.tried[i].time) > seconds_of(quickest->time) * (1 + predict::kLeastGainOfCode)) continue;
        table.best = i;
        break;
      }
      table.why = gain_in_words(dense, table.tried[table.best].time);
    }
  }
  const GradientCodes& codes = tried[table.best];
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
      table.buckets.push_back(bucket);
    }
  }
  return ChosenCompression{.codes = codes, .table = std::move(table)};
}

}  // namespace banyan::answer
