#include "banyan/run/record/words.h"

#include <array>
#include <cstdio>

namespace banyan::run {
namespace {

std::string decimals(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

}  // namespace

std::string duration_words(int64_t nanoseconds) {
  const double ns = static_cast<double>(nanoseconds);
  if (ns < 0) return "-" + duration_words(nanoseconds == INT64_MIN ? INT64_MAX : -nanoseconds);
  if (nanoseconds < 1'000) return std::to_string(nanoseconds) + " ns";
  if (ns < 999.95e3) return decimals(ns / 1e3, 1) + " us";
  if (ns < 999.95e6) return decimals(ns / 1e6, 1) + " ms";
  if (ns < 119.95e9) return decimals(ns / 1e9, 1) + " s";
  const int64_t seconds = nanoseconds / 1'000'000'000;
  if (seconds < 7200) return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " min";
}

std::string thousands(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, ",");
  return text;
}

std::string percent_words(double share) { return decimals(share * 100, 0) + " %"; }

}  // namespace banyan::run
