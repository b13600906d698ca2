#include "banyan/predict/report/page_series.h"

#include <algorithm>
#include <cmath>

namespace banyan::predict::report {

PageSeries::PageSeries(const Prediction& prediction, size_t most) : prediction_(prediction) {
  for (const PredictedLink& link : prediction.links) recorded_ = std::max(recorded_, link.load.size());
  steps_ = std::min(recorded_, most);
  if (steps_ == 0) return;
  step_ps_ =
      static_cast<double>(prediction.load_step.count()) * static_cast<double>(recorded_) / static_cast<double>(steps_);
}

std::string PageSeries::highest(std::span<const uint32_t> links) const {
  std::vector<double> highest(steps_);
  for (const uint32_t link : links) {
    const std::vector<float>& load = prediction_.links[link].load;
    if (load.empty()) continue;
    for (size_t step = 0; step < steps_; ++step) {
      const size_t begin = step * recorded_ / steps_, end = (step + 1) * recorded_ / steps_;
      double sum = 0;
      for (size_t i = begin; i < std::min(end, load.size()); ++i) sum += load[i];
      highest[step] = std::max(highest[step], sum / static_cast<double>(end - begin));
    }
  }
  std::string text;
  for (const double load : highest) text += letter(load);
  return text;
}

char PageSeries::letter(double load) {
  static constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  if (!(load > 0)) return kLetters[0];
  // A link that is not idle must not look idle.
  return kLetters[std::clamp(static_cast<int>(std::lround(load * 63)), 1, 63)];
}

}  // namespace banyan::predict::report
