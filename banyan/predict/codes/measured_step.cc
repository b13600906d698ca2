#include "banyan/predict/codes/measured_step.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/predict/codes/bucket_walk.h"
#include "banyan/predict/codes/option_choice.h"

namespace banyan::predict {
namespace {

constexpr uint32_t kLinks = 1, kLinksInBoxes = 2;

std::vector<GradientBucket> buckets_of(const MeasuredStep& step) {
  std::vector<GradientBucket> buckets;
  double before = 0;
  for (const MeasuredStep::Bucket& bucket : step.buckets) {
    buckets.push_back({.bytes = bucket.bytes, .backward = std::max(0.0, bucket.begin - before)});
    before = std::max(before, bucket.begin);
  }
  return buckets;
}

// What may become of a bucket, and what that is in a candidate.
struct Way {
  BucketOption option;
  uint32_t code = 0;  // 0 for none, else 1 + its number
  bool is_between_boxes = false;
};

BucketOption between_boxes(const CodeLaw& code, const MeasuredStep::Boxes& boxes) {
  const BucketStage inside{kLinksInBoxes, boxes.inside.latency, boxes.inside.per_byte};
  return {.name = code.name + " between boxes",
          .stages = {{kBackwardPass, 0, code.work_between_boxes / boxes.ranks},
                     inside,
                     {kLinks, boxes.across.latency, boxes.across.per_byte * code.share / boxes.ranks},
                     inside}};
}

std::vector<Way> ways_of(const MeasuredStep& step, std::span<const CodeLaw> codes) {
  const double on_wire = seconds_per_byte(step);
  std::vector<Way> ways = {{.option = {.name = "none", .stages = {{kLinks, step.latency, on_wire}}}}};
  for (uint32_t i = 0; i < codes.size(); ++i) {
    const std::vector<BucketStage> stages = {{kBackwardPass, 0, codes[i].work},
                                             {kLinks, step.latency, on_wire * codes[i].share}};
    ways.push_back({.option = {.name = codes[i].name, .stages = stages}, .code = i + 1});
  }
  for (uint32_t i = 0; step.boxes && i < codes.size(); ++i) {
    ways.push_back({.option = between_boxes(codes[i], *step.boxes), .code = i + 1, .is_between_boxes = true});
  }
  return ways;
}

}  // namespace

double seconds_per_byte(const MeasuredStep& step) {
  double seconds = 0, bytes = 0;
  for (const MeasuredStep::Bucket& bucket : step.buckets) {
    seconds += std::max(0.0, bucket.seconds - step.latency);
    bytes += bucket.bytes;
  }
  return bytes > 0 ? seconds / bytes : 0;
}

StepChoice choose_codes(const MeasuredStep& step, std::span<const CodeLaw> codes, const CodeRule& rule) {
  CHECK(!step.buckets.empty());
  const std::vector<GradientBucket> buckets = buckets_of(step);
  const std::vector<Way> ways = ways_of(step, codes);
  const auto seconds_of = [&](const Way& way) {
    return walk_buckets(buckets, std::span(&way.option, 1), std::vector<uint32_t>(buckets.size(), 0)).seconds;
  };
  const double of_the_rest = step.period - seconds_of(ways.front());

  StepChoice choice;
  std::vector<TimedCode> timed;
  for (const Way& way : ways) {
    StepCandidate candidate{.name = way.option.name,
                            .codes = std::vector<uint32_t>(buckets.size(), way.code),
                            .is_between_boxes = way.is_between_boxes,
                            .seconds = of_the_rest + seconds_of(way),
                            .loss = way.code == 0 ? 0 : codes[way.code - 1].loss};
    timed.push_back({.seconds = candidate.seconds, .loss = candidate.loss, .is_coded = way.code > 0});
    choice.candidates.push_back(std::move(candidate));
  }
  choice.best = best_by_rule(timed, rule).best;
  if (choice.best == 0) return choice;

  const std::vector<BucketOption> two = {ways.front().option, ways[choice.best].option};
  OptionChoice where = choose_options(buckets, two);
  const double seconds = of_the_rest + where.seconds;
  if (seconds > choice.chosen().seconds * (1 - kLeastGainOfCode)) return choice;
  StepCandidate some = choice.chosen();
  some.name += " where it gains";
  some.seconds = seconds;
  for (size_t i = 0; i < buckets.size(); ++i) some.codes[i] = where.options[i] == 0 ? 0 : some.codes[i];
  choice.best = choice.candidates.size();
  choice.candidates.push_back(std::move(some));
  return choice;
}

}  // namespace banyan::predict
