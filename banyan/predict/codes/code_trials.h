// CodeTrials: which codes a training tries, one after the other, when what was predicted of a step with them may be
// wrong; and which is best in the end.
//
// The rule's choice is tried first. Then the quickest of the other level, between boxes or everywhere, unless it is
// predicted to take over 10 % longer than the quickest that was measured: predictions are less sure of what no step
// without a code has shown. Then the quickest of all that were not tried, again and again, while it is predicted to
// gain the rule's least gain over everything that was measured. So a prediction that was too good costs a trial, and
// not the gain of another code.
//
// One measurement may be off by as much as codes differ. So what is within 10 % of the quickest is measured again, by
// turns; sending without a code is, too, where it is that close. In the end the rule of code_rule.h takes the best by
// the means of what was measured.
//
// Pure. One thread at a time. O(candidates).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "banyan/predict/codes/code_rule.h"
#include "banyan/predict/codes/measured_step.h"

namespace banyan::predict {

class CodeTrials {
 public:
  struct Limits {
    size_t codes = 3;         // that are tried, at most
    size_t measurements = 3;  // of each of them, and of steps without a code, at most
  };
  // `choice`: the predicted candidates, of which the first, without a code, is measured.
  CodeTrials(const StepChoice& choice, const CodeRule& rule, const Limits& limits);

  // The candidate that is to be measured now; nothing: all that is worth it was.
  std::optional<size_t> next() const;
  // Records the seconds of a step with the candidate of next().
  void note(double seconds);
  // The best of the candidates that were measured.
  size_t best() const;
  // The mean of what was measured of it; nothing where it was not.
  std::optional<double> measured(size_t candidate) const;

 private:
  struct Measured {
    size_t candidate = 0;
    size_t times = 0;
    double sum = 0;  // seconds
    double mean() const { return sum / static_cast<double>(times); }
  };
  double least_measured() const;
  std::optional<size_t> next_code() const;
  std::optional<size_t> next_again() const;
  // The quickest, as predicted, of the candidates that were not tried and lose little enough; with a level, of its
  // candidates only.
  std::optional<size_t> quickest_untried(std::optional<bool> is_between_boxes) const;
  bool has_tried(bool is_between_boxes) const;

  std::vector<StepCandidate> candidates_;
  size_t first_ = 0;  // 0: no code is worth a trial
  CodeRule rule_;
  Limits limits_;
  std::vector<Measured> measured_;  // in their order; no code first
};

}  // namespace banyan::predict
