// TrafficClass and ClassTurns: how executions of different urgency share the steps of one engine.
//
// The higher of two priorities goes first whenever it can move anything at all; the lower one has the steps in which
// the higher one waits for peers. Classes of equal priority share the bytes of the steps by their weights, by deficit
// round robin (Shreedhar and Varghese, 1995): at its turn a class may move weight times a quantum more than it has
// moved so far; a class that has nothing to move saves nothing up. So no class of a priority waits longer than one turn
// of each of the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/base/check.h"

namespace banyan::run {

struct TrafficClass {
  uint32_t priority = 0;
  uint32_t weight = 1;  // at least 1
};

class ClassTurns {
 public:
  // `quantum` in bytes: about the size of a slice.
  ClassTurns(std::span<const TrafficClass> classes, uint64_t quantum) : classes_(classes.begin(), classes.end()) {
    CHECK(!classes.empty() && quantum > 0) << classes.size() << " classes";
    for (uint32_t number = 0; number < classes_.size(); ++number) {
      CHECK(classes_[number].weight >= 1) << "class " << number;
      quanta_.push_back(quantum * classes_[number].weight);
      deficits_.push_back(0);
      order_.push_back(number);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return classes_[a].priority > classes_[b].priority; });
    for (size_t i = 0; i < order_.size(); ++i) {
      if (i == 0 || classes_[order_[i]].priority != classes_[order_[i - 1]].priority) levels_.push_back({.first = i});
      ++levels_.back().size;
    }
  }

  size_t count() const { return classes_.size(); }

  // One step of at most `budget` bytes; true if anything moved. `serve(number, allowance)` moves what it can of a
  // class, within `allowance`, which it counts down, and says whether anything moved.
  template <typename Serve>
  bool step(size_t budget, const Serve& serve) {
    if (classes_.size() == 1) return serve(0u, budget);
    for (Level& level : levels_) {
      const bool moved = level.size == 1 ? serve(order_[level.first], budget) : share(level, budget, serve);
      if (moved) return true;
    }
    return false;
  }

 private:
  struct Level {
    size_t first = 0, size = 0;  // in order_
    size_t turn = 0;             // of these
    bool is_turn_open = false;   // the budget ended in the middle of the turn
  };

  template <typename Serve>
  bool share(Level& level, size_t budget, const Serve& serve) {
    bool moved = false;
    for (size_t i = 0; i < level.size && budget > 0; ++i) {
      const uint32_t number = order_[level.first + level.turn];
      uint64_t& deficit = deficits_[number];
      if (!level.is_turn_open) deficit += quanta_[number];
      const size_t allowed = std::min<uint64_t>(budget, deficit);
      size_t left = allowed;
      bool could_move = true;
      while (left > 0 && could_move) {
        could_move = serve(number, left);
        moved |= could_move;
      }
      budget -= allowed - left;
      deficit -= allowed - left;
      level.is_turn_open = left == 0 && deficit > 0;
      if (level.is_turn_open) break;
      deficit = 0;
      level.turn = (level.turn + 1) % level.size;
    }
    return moved;
  }

  std::vector<TrafficClass> classes_;
  std::vector<uint64_t> quanta_, deficits_;  // bytes, by class
  std::vector<uint32_t> order_;              // classes, those of the highest priority first
  std::vector<Level> levels_;
};

}  // namespace banyan::run
