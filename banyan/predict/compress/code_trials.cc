#include "banyan/predict/compress/code_trials.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::predict {

CodeTrials::CodeTrials(const StepChoice& choice, const CodeRule& rule, size_t most)
    : candidates_(choice.candidates), first_(choice.best), rule_(rule), most_(most) {
  CHECK(!candidates_.empty() && first_ < candidates_.size());
}

std::optional<size_t> CodeTrials::next() const {
  if (first_ == 0 || trials_.size() >= most_) return {};
  if (trials_.empty()) return first_;
  std::optional<size_t> quickest;
  for (size_t i = 1; i < candidates_.size(); ++i) {
    if (measured(i) || candidates_[i].loss > rule_.most_loss) continue;
    if (!quickest || candidates_[i].seconds < candidates_[*quickest].seconds) quickest = i;
  }
  if (!quickest || candidates_[*quickest].seconds > least_measured() * (1 - rule_.least_gain)) return {};
  return quickest;
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
