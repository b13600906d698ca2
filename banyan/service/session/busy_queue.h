// BusyQueue: the sessions of one account that may have work, on one worker. Those that have waited longest come first.
//
// It lasts over rounds: each round offers the first kMostAtOnce, however many wait. So a user that rings for all of its
// sessions makes no round longer than one that rings for some, and each of these rings costs one step. A session that
// was offered and got no step stays in front.
//
// One thread. Each function is O(1), or O(kMostAtOnce).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

namespace banyan::service {

// The place of an item after its offer: it stays where it is, goes to the end to wait once more, or leaves the queue.
enum class AfterTurn : uint8_t { stays, waits_again, leaves };

template <typename Item>
class BusyQueue {
 public:
  // More than a round has steps for (turns.h).
  static constexpr size_t kMostAtOnce = 32;
  using Place = typename std::list<Item>::iterator;  // until it leaves or is removed

  bool is_empty() const { return items_.empty(); }
  Place add(Item item) { return items_.insert(items_.end(), std::move(item)); }
  void remove(Place place) { items_.erase(place); }

  // Calls `offered(item)` for the items of this round. True if others wait for the next one.
  template <typename Offered>
  bool offer(const Offered& offered) {
    offered_ = std::min(items_.size(), kMostAtOnce);
    auto each = items_.begin();
    for (size_t left = offered_; left > 0; --left, ++each) offered(*each);
    return each != items_.end();
  }
  // Asks `after(item)` what becomes of each item that offer() has offered; `after` must not add or remove any.
  template <typename After>
  void settle(const After& after) {
    auto each = items_.begin();
    for (size_t left = std::min(items_.size(), offered_); left > 0; --left) {
      const Place place = each++;
      const AfterTurn what = after(*place);
      if (what == AfterTurn::waits_again) items_.splice(items_.end(), items_, place);
      if (what == AfterTurn::leaves) items_.erase(place);
    }
  }

 private:
  std::list<Item> items_;
  size_t offered_ = 0;
};

}  // namespace banyan::service
