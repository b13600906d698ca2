#include "banyan/run/execute/lost_ways.h"

#include <algorithm>
#include <utility>

namespace banyan::run {

void LostWays::lose(const std::set<uint32_t>& cables, std::vector<Way> ways, TimePoint now) {
  for (const uint32_t cable : cables) ++losses_[cable];
  for (Way& way : ways) {
    uint32_t losses = 1;
    for (const uint32_t cable : way.cables) {
      if (cables.contains(cable)) losses = std::max(losses, losses_[cable]);
    }
    const auto pause = std::min(kLongestPause, kFirstPause * (1u << std::min(losses - 1, 8u)));
    if (find(way.peer, way.path) == ways_.end() && ways_.size() < kMost)
      ways_.push_back({.way = std::move(way), .due = now + pause});
  }
}

void LostWays::keep(const std::set<uint32_t>& cables) {
  cables_ = cables;
  std::erase_if(ways_, [&](const Lost& lost) {
    return std::none_of(lost.way.cables.begin(), lost.way.cables.end(),
                        [&](uint32_t cable) { return cables_.contains(cable); });
  });
}

std::vector<LostWays::Way> LostWays::due(TimePoint now) {
  std::vector<Way> ways;
  for (Lost& lost : ways_) {
    if (lost.is_tried || now < lost.due) continue;
    lost.is_tried = true;
    ways.push_back(lost.way);
  }
  return ways;
}

void LostWays::failed(uint32_t peer, const Path& path, TimePoint now) {
  const auto found = find(peer, path);
  if (found == ways_.end()) return;
  found->is_tried = false;
  found->due = now + kFirstPause;
}

std::set<uint32_t> LostWays::worked(uint32_t peer, const Path& path, TimePoint now) {
  const auto found = find(peer, path);
  if (found == ways_.end()) return {};
  std::set<uint32_t> whole;
  for (const uint32_t cable : found->way.cables) {
    if (cables_.contains(cable)) whole.insert(cable);
  }
  found->is_tried = false;
  found->due = now + kFirstPause;
  return whole;
}

std::vector<LostWays::Lost>::iterator LostWays::find(uint32_t peer, const Path& path) {
  return std::find_if(ways_.begin(), ways_.end(),
                      [&](const Lost& lost) { return lost.way.peer == peer && lost.way.path == path; });
}

}  // namespace banyan::run
