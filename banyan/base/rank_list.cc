#include "banyan/base/rank_list.h"

#include <cstddef>

namespace banyan {

std::string list_ranks(const std::vector<uint32_t>& ranks) {
  if (ranks.empty()) return "no rank";
  constexpr size_t kPieces = 8;
  constexpr size_t kShortestRun = 4;  // shorter ones are easier to read one by one
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t next = 0;
  for (size_t piece = 0; next < ranks.size(); ++piece) {
    if (piece == kPieces) return text + " and " + std::to_string(ranks.size() - next) + " more";
    if (piece > 0) text += ", ";
    size_t end = next + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += std::to_string(ranks[next]);
    if (end - next >= kShortestRun) {
      text += "-" + std::to_string(ranks[end - 1]);
      next = end;
    } else {
      ++next;
    }
  }
  return text;
}

const char* agree(const std::vector<uint32_t>& ranks, const char* many, const char* one) {
  return ranks.size() == 1 ? one : many;
}

}  // namespace banyan
