#include "banyan/predict/compress/code_trials.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

constexpr double kErrorOfPredictions = 0.1;

}  // namespace

CodeTrials::CodeTrials(const StepChoice& choice, const CodeRule& rule, size_t most)
    : candidates_(choice.candidates), first_(choice.best), rule_(rule), most_(most) {
  CHECK(!candidates_.empty() && first_ < candidates_.size());
}

std::optional<size_t> CodeTrials::next() const {
  if (first_ == 0 || trials_.size() >= most_) return {};
  if (trials_.empty()) return first_;
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
  return std::any_of(trials_.begin(), trials_.end(), [&](const Trial& trial) {
    return candidates_[trial.candidate].is_between_boxes == is_between_boxes;
  });
}

void CodeTrials::note(double seconds) {
  const std::optional<size_t> candidate = next();
  CHECK(candidate) << "nothing is being tried";
  trials_.push_back({.candidate = *candidate, .seconds = seconds});
}

size_t CodeTrials::best() const {
  std::vector<TimedCode> ways = {{.seconds = candidates_.front().seconds}};
  for (const Trial& trial : trials_) {
    ways.push_back({.seconds = trial.seconds, .loss = candidates_[trial.candidate].loss, .is_coded = true});
  }
  const size_t best = best_by_rule(ways, rule_).best;
  return best == 0 ? 0 : trials_[best - 1].candidate;
}

std::optional<double> CodeTrials::measured(size_t candidate) const {
  if (candidate == 0) return candidates_.front().seconds;
  for (const Trial& trial : trials_) {
    if (trial.candidate == candidate) return trial.seconds;
  }
  return {};
}

double CodeTrials::least_measured() const {
  double least = candidates_.front().seconds;
  for (const Trial& trial : trials_) least = std::min(least, trial.seconds);
  return least;
}

}  // namespace banyan::predict
