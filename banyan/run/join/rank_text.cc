#include "banyan/run/join/rank_text.h"

namespace banyan {

std::string rank_text(const std::vector<uint32_t>& ranks) {
  if (ranks.empty()) return "no rank";
  constexpr size_t kRanges = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t begin = 0;
  for (size_t range = 0; begin < ranks.size(); ++range) {
    if (range == kRanges) return text + " and " + std::to_string(ranks.size() - begin) + " more";
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += (range == 0 ? "" : ", ") + std::to_string(ranks[begin]);
    if (end - begin == 2) text += ", " + std::to_string(ranks[end - 1]);
    if (end - begin > 2) text += "-" + std::to_string(ranks[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace banyan
