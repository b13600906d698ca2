#include "banyan/plan/direct/balance.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

// A flow from groups to arcs, grown by Dinic's blocking flows from the groups that still have something left.
class GroupFlow {
 public:
  GroupFlow(std::span<const SourceGroup> groups, std::span<const int64_t> capacity)
      : groups_(groups), capacity_(capacity), users_(capacity.size()) {
    for (uint32_t g = 0; g < groups.size(); ++g) {
      for (uint32_t i = 0; i < groups[g].arcs.size(); ++i) users_[groups[g].arcs[i]].push_back({g, i});
    }
  }

  // Whether every group finds room when the ratio is p/q.
  bool carries_all(int128 p, int128 q) {
    parts_.clear();
    left_.clear();
    room_.clear();
    for (const SourceGroup& group : groups_) {
      parts_.emplace_back(group.arcs.size(), 0);
      left_.push_back(q * group.weight);
    }
    for (const int64_t c : capacity_) room_.push_back(p * c);
    while (label()) {
      next_.assign(groups_.size(), 0);
      next_user_.assign(room_.size(), 0);
      for (uint32_t g = 0; g < groups_.size(); ++g) {
        if (left_[g] > 0) left_[g] -= push(g, left_[g]);
      }
    }
    return std::all_of(left_.begin(), left_.end(), [](int128 left) { return left == 0; });
  }

  // After a flow that fell short: the ratio of the groups that the cut parts from room.
  Fraction cut_ratio() const {
    int128 weight = 0, capacity = 0;
    for (uint32_t g = 0; g < groups_.size(); ++g) weight += group_level_[g] >= 0 ? groups_[g].weight : 0;
    for (uint32_t a = 0; a < room_.size(); ++a) capacity += arc_level_[a] >= 0 ? capacity_[a] : 0;
    return Fraction(weight, capacity);
  }

  std::vector<std::vector<int128>> take_parts() { return std::move(parts_); }

 private:
  struct User {
    uint32_t group = 0, place = 0;  // parts_[group][place] is on the arc
  };

  // Breadth-first from the groups with something left; whether an arc with room was met.
  bool label() {
    group_level_.assign(groups_.size(), -1);
    arc_level_.assign(room_.size(), -1);
    std::vector<uint32_t> front, arcs;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (left_[g] == 0) continue;
      group_level_[g] = 0;
      front.push_back(g);
    }
    bool found = false;
    for (int32_t level = 1; !front.empty() && !found; level += 2) {
      arcs.clear();
      for (const uint32_t g : front) {
        for (const uint32_t a : groups_[g].arcs) {
          if (arc_level_[a] >= 0) continue;
          arc_level_[a] = level;
          arcs.push_back(a);
          found |= room_[a] > 0;
        }
      }
      front.clear();
      for (const uint32_t a : arcs) {
        for (const User& user : users_[a]) {
          if (group_level_[user.group] >= 0 || parts_[user.group][user.place] == 0) continue;
          group_level_[user.group] = level + 1;
          front.push_back(user.group);
        }
      }
    }
    return found;
  }

  // Sends up to `want` from a group to arcs one level further; what is full there is first sent on to others.
  int128 push(uint32_t g, int128 want) {
    int128 sent = 0;
    const std::vector<uint32_t>& arcs = groups_[g].arcs;
    for (uint32_t& i = next_[g]; i < arcs.size(); ++i) {
      if (arc_level_[arcs[i]] == group_level_[g] + 1) {
        const int128 moved = fill(arcs[i], want - sent);
        parts_[g][i] += moved;
        sent += moved;
      }
      if (sent == want) return sent;  // the arc may have more room yet
    }
    return sent;
  }

  int128 fill(uint32_t arc, int128 want) {
    int128 got = std::min(want, room_[arc]);
    room_[arc] -= got;
    for (uint32_t& i = next_user_[arc]; i < users_[arc].size(); ++i) {
      if (got == want) return got;
      const auto [group, place] = users_[arc][i];
      if (group_level_[group] != arc_level_[arc] + 1) continue;
      const int128 moved = push(group, std::min(want - got, parts_[group][place]));
      parts_[group][place] -= moved;
      got += moved;
      if (got == want) return got;
    }
    return got;
  }

  std::span<const SourceGroup> groups_;
  std::span<const int64_t> capacity_;
  std::vector<std::vector<User>> users_;  // by arc
  std::vector<std::vector<int128>> parts_;
  std::vector<int128> left_, room_;  // by group, by arc
  std::vector<int32_t> group_level_, arc_level_;
  std::vector<uint32_t> next_, next_user_;
};

}  // namespace

Balance balance(std::span<const SourceGroup> groups, std::span<const int64_t> capacity) {
  CHECK(!groups.empty());
  std::vector<bool> used(capacity.size(), false);
  int128 weight = 0, total = 0;
  for (const SourceGroup& group : groups) {
    weight += group.weight;
    for (const uint32_t a : group.arcs) used[a] = true;
  }
  for (uint32_t a = 0; a < capacity.size(); ++a) total += used[a] ? capacity[a] : 0;
  Fraction load(weight, total);
  GroupFlow flow(groups, capacity);
  while (!flow.carries_all(load.numerator(), load.denominator())) {
    const Fraction cut = flow.cut_ratio();
    CHECK(cut > load) << "the cut of a flow that falls short has a ratio of " << cut.to_string();
    load = cut;
  }
  return {.load = load, .parts = flow.take_parts()};
}

}  // namespace banyan::plan
