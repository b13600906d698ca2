// CodeTrials: which codes a training tries, one after the other, when what was predicted of a step with them may be
// wrong; and which is best in the end.
//
// The rule's choice is tried first. Then the quickest of the other level, between boxes or everywhere, unless it is
// predicted to take over 10 % longer than the quickest that was measured: predictions are less sure of what no step
// without a code has shown. Then the quickest of all that were not tried, again and again, while it is predicted to
// gain the rule's least gain over everything that was measured. In the end the rule of code_rule.h takes the best of
// what was measured; no code is among that. So a prediction that was too good costs a trial, and not the gain of
// another code.
//
// Pure. One thread at a time. O(candidates).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "banyan/predict/compress/code_rule.h"
#include "banyan/predict/compress/measured_step.h"

namespace banyan::predict {

class CodeTrials {
 public:
  // What was predicted, of which the first, without a code, is measured. At most so many trials.
  CodeTrials(const StepChoice& choice, const CodeRule& rule, size_t most);

  // The candidate that is to be tried now; nothing: all that is worth it was.
  std::optional<size_t> next() const;
  // What a step takes with the candidate of next().
  void note(double seconds);
  // Of those that were measured.
  size_t best() const;
  // Nothing where it was not measured.
  std::optional<double> measured(size_t candidate) const;
  size_t tried() const { return trials_.size(); }

 private:
  struct Trial {
    size_t candidate = 0;
    double seconds = 0;
  };
  double least_measured() const;
  // Of those that were not tried and lose little enough; with a level, of these.
  std::optional<size_t> quickest_untried(std::optional<bool> is_between_boxes) const;
  bool has_tried(bool is_between_boxes) const;

  std::vector<StepCandidate> candidates_;
  size_t first_ = 0;  // 0: no code is worth a trial
  CodeRule rule_;
  size_t most_ = 0;
  std::vector<Trial> trials_;
};

}  // namespace banyan::predict
