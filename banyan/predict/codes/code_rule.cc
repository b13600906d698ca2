#include "banyan/predict/codes/code_rule.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::predict {

RuledCode best_by_rule(std::span<const TimedCode> ways, const CodeRule& rule) {
  const auto dense = std::find_if(ways.begin(), ways.end(), [](const TimedCode& way) { return !way.is_coded; });
  CHECK(dense != ways.end()) << "one way is to be without a code";
  RuledCode ruled{.best = static_cast<size_t>(dense - ways.begin())};
  for (size_t i = 0; i < ways.size(); ++i) {
    if (!ways[i].is_coded || ways[i].loss > rule.most_loss) continue;
    if (!ruled.quickest || ways[i].seconds < ways[*ruled.quickest].seconds) ruled.quickest = i;
  }
  if (!ruled.quickest) return ruled;
  const double least = ways[*ruled.quickest].seconds, at_most = dense->seconds * (1 - rule.least_gain);
  if (least > at_most) return ruled;
  ruled.best = *ruled.quickest;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (!ways[i].is_coded || ways[i].seconds > std::min(at_most, least * (1 + kLeastGainOfCode))) continue;
    if (ways[i].loss < ways[ruled.best].loss) ruled.best = i;
  }
  return ruled;
}

}  // namespace banyan::predict
