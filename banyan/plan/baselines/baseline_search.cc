// find_order: Hamiltonian cycles and paths, heuristically.
#include <algorithm>
#include <numeric>

#include "banyan/base/check.h"
#include "banyan/plan/baselines/baseline_order.h"

namespace banyan::plan {
namespace {

constexpr uint64_t kMaxLooks = 20'000'000;    // at hops, by the depth-first search
constexpr uint64_t kMaxRotated = 40'000'000;  // places that rotations move

class DepthFirst {
 public:
  explicit DepthFirst(const OrderQuestion& question)
      : question_(question), used_(question.successors.size(), false), closes_(question.successors.size(), false) {
    for (uint32_t place = 0; place < closes_.size(); ++place) {
      const auto& next = question.successors[place];
      closes_[place] = std::ranges::find(next, 0u) != next.end();
      free_closers_ += closes_[place] ? 1u : 0u;
    }
  }

  OrderSearch run() {
    enter(0);
    while (!stack_.empty()) {
      if (complete()) return {.order = path_};
      Level& level = stack_.back();
      if (level.next == level.choices.size()) {
        leave();
      } else if (looks_ > kMaxLooks) {
        return {};
      } else {
        enter(level.choices[level.next++]);
      }
    }
    return {.exhausted = true};
  }

 private:
  struct Level {
    std::vector<uint32_t> choices;
    size_t next = 0;
  };

  bool complete() const { return path_.size() == used_.size() && (!question_.closed || closes_[path_.back()]); }

  size_t ways_on(uint32_t place) {
    const auto& next = question_.successors[place];
    looks_ += next.size() + 1;
    return static_cast<size_t>(std::ranges::count_if(next, [&](uint32_t other) { return !used_[other]; }));
  }

  void enter(uint32_t place) {
    path_.push_back(place);
    used_[place] = true;
    free_closers_ -= closes_[place] ? 1u : 0u;
    Level level;
    // Without a free place that leads back to the start, a ring can only be closed if this was the last place.
    if (!question_.closed || free_closers_ > 0) {
      std::vector<std::pair<size_t, uint32_t>> ranked;
      for (const uint32_t next : question_.successors[place]) {
        if (!used_[next]) ranked.emplace_back(ways_on(next), next);
      }
      std::ranges::sort(ranked);
      for (const auto& [ways, next] : ranked) level.choices.push_back(next);
    }
    stack_.push_back(std::move(level));
  }

  void leave() {
    const uint32_t place = path_.back();
    path_.pop_back();
    stack_.pop_back();
    used_[place] = false;
    free_closers_ += closes_[place] ? 1u : 0u;
  }

  const OrderQuestion& question_;
  std::vector<uint32_t> path_;
  std::vector<bool> used_, closes_;
  size_t free_closers_ = 0;
  uint64_t looks_ = 0;
  std::vector<Level> stack_;
};

// Pósa's rotations, for graphs whose hops can all be made both ways. The path's end goes on to a free neighbour; if it
// has none, it is joined to a random neighbour on the path, and the rest of the path is turned round.
class Rotations {
 public:
  explicit Rotations(const OrderQuestion& question)
      : question_(question), position_(question.successors.size(), kFree) {}

  std::vector<uint32_t> run() {
    push(0);
    while (rotated_ < kMaxRotated) {
      const auto& next = question_.successors[path_.back()];
      if (path_.size() == position_.size() && std::ranges::find(next, path_.front()) != next.end()) {
        std::rotate(path_.begin(), std::ranges::find(path_, 0u), path_.end());
        return path_;
      }
      const auto free = std::ranges::find_if(next, [&](uint32_t place) { return position_[place] == kFree; });
      if (free != next.end()) {
        push(*free);
      } else {
        turn_after(position_[next[random() % next.size()]]);
      }
    }
    return {};
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;

  void push(uint32_t place) {
    position_[place] = static_cast<uint32_t>(path_.size());
    path_.push_back(place);
  }

  void turn_after(uint32_t joint) {
    std::reverse(path_.begin() + joint + 1, path_.end());
    for (uint32_t i = joint + 1; i < path_.size(); ++i) position_[path_[i]] = i;
    rotated_ += path_.size() - joint;
  }

  // Knuth's MMIX generator: the same on every machine, unlike the standard distributions.
  uint32_t random() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }

  const OrderQuestion& question_;
  std::vector<uint32_t> path_, position_;
  uint64_t state_ = 1;
  uint64_t rotated_ = 0;
};

bool goes_both_ways(const OrderQuestion& question) {
  for (uint32_t place = 0; place < question.successors.size(); ++place) {
    for (const uint32_t next : question.successors[place]) {
      const auto& back = question.successors[next];
      if (std::ranges::find(back, place) == back.end()) return false;
    }
  }
  return true;
}

// Whether the places fall into two sides, with hops between the sides only.
std::optional<int64_t> imbalance_of_sides(const OrderQuestion& question) {
  std::vector<int> side(question.successors.size(), 0);
  std::vector<uint32_t> queue{0};
  side[0] = 1;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const uint32_t next : question.successors[queue[i]]) {
      if (side[next] == side[queue[i]]) return std::nullopt;
      if (side[next] == 0) {
        side[next] = -side[queue[i]];
        queue.push_back(next);
      }
    }
  }
  if (queue.size() < side.size()) return std::nullopt;
  return std::accumulate(side.begin(), side.end(), int64_t{0});
}

}  // namespace

OrderSearch find_order(const OrderQuestion& question) {
  CHECK(question.successors.size() >= 2) << "places=" << question.successors.size();
  // A ring alternates between the sides of a two-sided graph, as a mesh is; with unequal sides there is none, and a
  // search would take for ever to notice.
  if (question.closed && imbalance_of_sides(question).value_or(0) != 0) return {.exhausted = true};
  const bool both_ways = goes_both_ways(question);
  const size_t least_ways = question.closed ? (both_ways && question.successors.size() > 2 ? 2 : 1) : 0;
  for (const auto& next : question.successors) {
    if (next.size() < least_ways) return {.exhausted = true};
  }
  OrderSearch result = DepthFirst(question).run();
  if (!result.order.empty() || result.exhausted || !question.closed || !both_ways) return result;
  return {.order = Rotations(question).run()};
}

}  // namespace banyan::plan
