#include "banyan/predict/compress/measured_step.h"

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/predict/compress/bucket_walk.h"
#include "banyan/predict/compress/option_choice.h"

namespace banyan::predict {
namespace {

constexpr uint32_t kLinks = 1;

std::vector<GradientBucket> buckets_of(const MeasuredStep& step) {
  std::vector<GradientBucket> buckets;
  double before = 0;
  for (const MeasuredStep::Bucket& bucket : step.buckets) {
    buckets.push_back({.bytes = bucket.bytes, .backward = std::max(0.0, bucket.begin - before)});
    before = std::max(before, bucket.begin);
  }
  return buckets;
}

std::vector<BucketOption> options_of(const MeasuredStep& step, std::span<const CodeLaw> codes) {
  const double on_wire = seconds_per_byte(step);
  std::vector<BucketOption> options = {{.name = "none", .stages = {{kLinks, step.latency, on_wire}}}};
  for (const CodeLaw& code : codes) {
    options.push_back(
        {.name = code.name, .stages = {{kBackwardPass, 0, code.work}, {kLinks, step.latency, on_wire * code.share}}});
  }
  return options;
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
  const std::vector<BucketOption> options = options_of(step, codes);
  const std::vector<uint32_t> no_code(buckets.size(), 0);
  const double of_the_rest = step.period - walk_buckets(buckets, options, no_code).seconds;

  StepChoice choice;
  std::vector<TimedCode> timed;
  for (uint32_t option = 0; option < options.size(); ++option) {
    StepCandidate candidate{.name = options[option].name,
                            .codes = std::vector<uint32_t>(buckets.size(), option),
                            .loss = option == 0 ? 0 : codes[option - 1].loss};
    candidate.seconds = of_the_rest + walk_buckets(buckets, options, candidate.codes).seconds;
    timed.push_back({.seconds = candidate.seconds, .loss = candidate.loss, .is_coded = option > 0});
    choice.candidates.push_back(std::move(candidate));
  }
  choice.best = best_by_rule(timed, rule).best;
  if (choice.best == 0) return choice;

  const std::vector<BucketOption> two = {options[0], options[choice.best]};
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
