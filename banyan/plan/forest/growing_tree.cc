#include "banyan/plan/forest/growing_tree.h"

#include <numeric>
#include <utility>

namespace banyan::plan {

GrowingTree::ArcClasses GrowingTree::ArcClasses::one_each(size_t arcs) {
  ArcClasses classes{.of = std::vector<uint32_t>(arcs), .weight = std::vector<int64_t>(arcs, 1)};
  std::iota(classes.of.begin(), classes.of.end(), 0u);
  return classes;
}

GrowingTree::GrowingTree(const Network& network, const TreeRoom& room, ArcClasses classes)
    : network_(network),
      room_(room),
      classes_(std::move(classes)),
      uses_(classes_.weight.size(), 0),
      members_(network.vertex_count(), 0),
      depth_(network.vertex_count(), 0) {
  for (const int64_t capacity : room.initial)
    inverse_initial_.push_back(capacity > 0 ? 1.0 / static_cast<double>(capacity) : 0);
}

void GrowingTree::begin(uint32_t root, int64_t units) {
  // Only the classes that the last tree crossed are cleared: arcs are many, and a tree crosses few of them.
  for (const uint32_t id : used_) uses_[id] = 0;
  used_.clear();
  std::fill(members_.begin(), members_.end(), 0);
  edges_.clear();
  path_arcs_.clear();
  // The root alone is the first member.
  root_ = root;
  units_ = units;
  height_ = 0;
  members_[root] = 1;
  depth_[root] = 0;
}

void GrowingTree::add(Path path) {
  const uint32_t begin = static_cast<uint32_t>(path_arcs_.size());
  const uint32_t from = network_.arcs()[path.front()].tail, to = network_.arcs()[path.back()].head;
  // The path takes capacity off each class that it crosses. There is room for that: the caller has asked.
  for (const uint32_t arc : path) {
    if (uses_[classes_.of[arc]]++ == 0) used_.push_back(classes_.of[arc]);
  }
  // Its terminal joins below a member, so edges stay in the order of parents before children.
  members_[to] = 1;
  depth_[to] = depth_[from] + 1;
  path_arcs_.insert(path_arcs_.end(), path.begin(), path.end());
  edges_.push_back({.from = from, .to = to, .path_begin = begin, .path_end = static_cast<uint32_t>(path_arcs_.size())});
  height_ = std::max(height_, depth_[to]);
}

double GrowingTree::score(Path path) const {
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < path.size(); ++i) {
    // A path may cross a class several times: as often as it does, there must be room.
    const auto alike = std::count_if(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](uint32_t earlier) { return classes_.of[earlier] == classes_.of[path[i]]; });
    if (!has_room(path[i], 1 + static_cast<uint32_t>(alike))) return kNoRoom;
    least = std::min(least, comfort(path[i]));
  }
  return least;
}

}  // namespace banyan::plan
