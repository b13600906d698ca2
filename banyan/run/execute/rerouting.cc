#include "banyan/run/execute/rerouting.h"

#include <algorithm>
#include <map>

namespace banyan::run {
namespace {

// Reports of one moment are drawn up a little apart.
constexpr uint64_t kMargin = 200;

}  // namespace

std::set<uint32_t> lost_cables(const std::vector<LaneReport>& lanes) {
  // Of each cable, how long ago anything that crosses it was heard of.
  std::map<uint32_t, uint64_t> heard;
  for (const LaneReport& lane : lanes) {
    if (lane.is_lost) continue;
    for (const uint32_t cable : lane.cables) {
      const auto [place, is_new] = heard.emplace(cable, lane.silent_ms);
      if (!is_new) place->second = std::min(place->second, lane.silent_ms);
    }
  }
  std::set<uint32_t> lost;
  for (const LaneReport& lane : lanes) {
    if (!lane.is_lost) continue;
    for (const uint32_t cable : lane.cables) {
      const auto found = heard.find(cable);
      if (found == heard.end() || found->second + kMargin >= lane.silent_ms) lost.insert(cable);
    }
  }
  return lost;
}

}  // namespace banyan::run
