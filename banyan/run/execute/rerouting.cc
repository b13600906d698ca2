#include "banyan/run/execute/rerouting.h"

#include <algorithm>
#include <map>
#include <utility>

namespace banyan::run {
namespace {

// Reports of one moment are drawn up a little apart.
constexpr uint64_t kMargin = 200;

// A lane, whichever end speaks of it.
struct Lane {
  std::pair<uint32_t, uint32_t> ends;
  std::vector<uint32_t> cables;  // in ascending order
  auto operator<=>(const Lane&) const = default;
};

struct State {
  bool is_lost = false;
  uint64_t silent_ms = 0;  // of the end that has heard nothing for longer
};

std::map<Lane, State> join_ends(const std::vector<LaneReport>& reports) {
  std::map<Lane, State> lanes;
  for (const LaneReport& report : reports) {
    Lane lane{.ends = std::minmax(report.rank, report.peer), .cables = report.cables};
    std::sort(lane.cables.begin(), lane.cables.end());
    // A lane is as badly off as the worse of its ends says: one end may still receive over a cable that loses the other
    // way.
    State& state = lanes[std::move(lane)];
    state.is_lost |= report.is_lost;
    state.silent_ms = std::max(state.silent_ms, report.silent_ms);
  }
  return lanes;
}

}  // namespace

std::set<uint32_t> lost_cables(const std::vector<LaneReport>& reports) {
  const std::map<Lane, State> lanes = join_ends(reports);
  // Of each cable, how long ago anything that crosses it was heard of.
  std::map<uint32_t, uint64_t> heard;
  for (const auto& [lane, state] : lanes) {
    if (state.is_lost) continue;
    for (const uint32_t cable : lane.cables) {
      const auto [place, is_new] = heard.emplace(cable, state.silent_ms);
      if (!is_new) place->second = std::min(place->second, state.silent_ms);
    }
  }
  // A cable of a lost lane is exonerated by another lane over it, both ends of which have heard something later.
  std::set<uint32_t> lost;
  for (const auto& [lane, state] : lanes) {
    if (!state.is_lost) continue;
    for (const uint32_t cable : lane.cables) {
      const auto found = heard.find(cable);
      if (found == heard.end() || found->second + kMargin >= state.silent_ms) lost.insert(cable);
    }
  }
  return lost;
}

}  // namespace banyan::run
