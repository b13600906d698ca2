#include "banyan/run/stall.h"

#include <vector>

namespace banyan {
namespace {

std::string list(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

std::string explain(const Stall& stall) {
  std::vector<uint32_t> silent, late;
  for (uint32_t rank = 0; rank < stall.ranks.size(); ++rank) {
    if (rank == stall.own) continue;
    if (stall.ranks[rank].is_silent) silent.push_back(rank);
    if (stall.ranks[rank].progress.begun < stall.sequence) late.push_back(rank);
  }
  std::string text = "this rank, " + std::to_string(stall.own) + ", waits in " +
                     describe(record_of(stall.call, stall.sequence)) + " for ";
  if (!silent.empty()) {
    return text + list(silent) + (silent.size() == 1 ? ", whose process gives" : ", whose processes give") +
           " no sign of life (stopped, or cut off?)";
  }
  if (!late.empty()) {
    text += list(late) + ", which " + (late.size() == 1 ? "has" : "have") + " not made it";
    const RankProgress& last = stall.ranks[late.front()].progress;
    if (last.begun == 0) return text + " and no call before";
    return text + ": the last call of rank " + std::to_string(late.front()) + " was " +
           describe(record_of(last.last_call, last.begun));
  }
  return text + "rank " + std::to_string(stall.waited_for) + ", which has made it too, and does not go on (stopped?)";
}

}  // namespace banyan
