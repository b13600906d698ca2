#include "banyan/predict/codes/code_trials.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

constexpr double kErrorOfPredictions = 0.1, kErrorOfMeasurements = 0.1;

}  // namespace

CodeTrials::CodeTrials(const StepChoice& choice, const CodeRule& rule, const Limits& limits)
    : candidates_(choice.candidates), first_(choice.best), rule_(rule), limits_(limits) {
  CHECK(!candidates_.empty() && first_ < candidates_.size());
  measured_.push_back({.candidate = 0, .times = 1, .sum = candidates_.front().seconds});
}

std::optional<size_t> CodeTrials::next() const {
  if (first_ == 0) return {};
  const std::optional<size_t> code = next_code();
  return code ? code : next_again();
}

std::optional<size_t> CodeTrials::next_code() const {
  const size_t tried = measured_.size() - 1;
  if (tried >= limits_.codes) return {};
  if (tried == 0) return first_;
  const double least = least_measured();
  for (const bool is_between_boxes : {false, true}) {
    if (has_tried(is_between_boxes)) continue;
    const std::optional<size_t> of_level = quickest_untried(is_between_boxes);
    if (of_level && candidates_[*of_level].seconds <= least * (1 + kErrorOfPredictions)) return of_level;
  }
  const std::optional<size_t> quickest = quickest_untried({});
  if (!quickest || candidates_[*quickest].seconds > least * (1 - rule_.least_gain)) return {};
  return quickest;
}

// Of what is close to the quickest, what was measured least often.
std::optional<size_t> CodeTrials::next_again() const {
  const double close = least_measured() * (1 + kErrorOfMeasurements);
  const Measured* rarest = nullptr;
  size_t rivals = 0;
  for (const Measured& each : measured_) {
    if (each.mean() > close) continue;
    ++rivals;
    if (rarest == nullptr || each.times < rarest->times) rarest = &each;
  }
  if (rivals < 2 || rarest->times >= limits_.measurements) return {};
  return rarest->candidate;
}

std::optional<size_t> CodeTrials::quickest_untried(std::optional<bool> is_between_boxes) const {
  std::optional<size_t> quickest;
  for (size_t i = 1; i < candidates_.size(); ++i) {
    if (measured(i) || candidates_[i].loss > rule_.most_loss) continue;
    if (is_between_boxes && candidates_[i].is_between_boxes != *is_between_boxes) continue;
    if (!quickest || candidates_[i].seconds < candidates_[*quickest].seconds) quickest = i;
  }
  return quickest;
}

bool CodeTrials::has_tried(bool is_between_boxes) const {
  return std::any_of(measured_.begin() + 1, measured_.end(), [&](const Measured& each) {
    return candidates_[each.candidate].is_between_boxes == is_between_boxes;
  });
}

void CodeTrials::note(double seconds) {
  const std::optional<size_t> candidate = next();
  CHECK(candidate) << "nothing is being measured";
  const auto found = std::find_if(measured_.begin(), measured_.end(),
                                  [&](const Measured& each) { return each.candidate == *candidate; });
  Measured& noted = found == measured_.end() ? measured_.emplace_back(Measured{.candidate = *candidate}) : *found;
  ++noted.times;
  noted.sum += seconds;
}

size_t CodeTrials::best() const {
  std::vector<TimedCode> ways;
  for (const Measured& each : measured_) {
    ways.push_back({.seconds = each.mean(), .loss = candidates_[each.candidate].loss, .is_coded = each.candidate != 0});
  }
  return measured_[best_by_rule(ways, rule_).best].candidate;
}

std::optional<double> CodeTrials::measured(size_t candidate) const {
  for (const Measured& each : measured_) {
    if (each.candidate == candidate) return each.mean();
  }
  return {};
}

double CodeTrials::least_measured() const {
  double least = measured_.front().mean();
  for (const Measured& each : measured_) least = std::min(least, each.mean());
  return least;
}

}  // namespace banyan::predict
