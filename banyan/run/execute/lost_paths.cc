#include "banyan/run/execute/lost_paths.h"

#include <algorithm>
#include <utility>

namespace banyan::run {

void LostPaths::lose(const std::set<uint32_t>& cables, std::vector<PeerPath> paths, TimePoint now) {
  for (const uint32_t cable : cables) ++losses_[cable];
  for (PeerPath& path : paths) {
    uint32_t losses = 1;
    for (const uint32_t cable : path.cables) {
      if (cables.contains(cable)) losses = std::max(losses, losses_[cable]);
    }
    // A cable that is lost again and again is tried after longer and longer pauses.
    const auto pause = std::min(kLongestPause, kFirstPause * (1u << std::min(losses - 1, 8u)));
    if (find(path.peer, path.path) == paths_.end() && paths_.size() < kMost)
      paths_.push_back({.path = std::move(path), .due = now + pause});
  }
}

void LostPaths::keep(const std::set<uint32_t>& cables) {
  cables_ = cables;
  std::erase_if(paths_, [&](const Lost& lost) {
    return std::none_of(lost.path.cables.begin(), lost.path.cables.end(),
                        [&](uint32_t cable) { return cables_.contains(cable); });
  });
}

std::vector<LostPaths::PeerPath> LostPaths::due(TimePoint now) {
  std::vector<PeerPath> paths;
  for (Lost& lost : paths_) {
    if (lost.is_tried || now < lost.due) continue;
    lost.is_tried = true;
    paths.push_back(lost.path);
  }
  return paths;
}

void LostPaths::failed(uint32_t peer, const Path& path, TimePoint now) {
  const auto found = find(peer, path);
  if (found == paths_.end()) return;
  found->is_tried = false;
  found->due = now + kFirstPause;
}

std::set<uint32_t> LostPaths::worked(uint32_t peer, const Path& path, TimePoint now) {
  const auto found = find(peer, path);
  if (found == paths_.end()) return {};
  std::set<uint32_t> whole;
  for (const uint32_t cable : found->path.cables) {
    if (cables_.contains(cable)) whole.insert(cable);
  }
  found->is_tried = false;
  found->due = now + kFirstPause;
  return whole;
}

std::vector<LostPaths::Lost>::iterator LostPaths::find(uint32_t peer, const Path& path) {
  return std::find_if(paths_.begin(), paths_.end(),
                      [&](const Lost& lost) { return lost.path.peer == peer && lost.path.path == path; });
}

}  // namespace banyan::run
