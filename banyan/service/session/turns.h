// Turns: whose sessions a worker steps next, so that sharers (share/sharer.h) get its thread by their weights, in
// seconds.
//
// In each round the sessions that may have work are offered. They are stepped one at a time: next comes a session of
// the sharer whose turn it is by start-time fair queueing (share/fair_queue.h), among those of one sharer in turn. A
// step costs its sharer the time that it takes. A session for which nothing is left to do has to wait for the next
// round: it waits for a peer, or for its program. The round ends when all wait, or after kRound, so that doorbells and
// connections are looked at again. A sharer that moves data all the time takes no more than its part, however many
// sessions it has; and one that takes less than its part, with a small call now and then, waits for no more than a step
// of each other sharer.
//
// A sharer with sessions on several workers has a turn at each: what is shared is each worker's time.
//
// One thread. A step costs O(log sharers) beside itself, and two looks at the clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "banyan/service/share/fair_queue.h"

namespace banyan::service {

template <typename Item>
class Turns {
 public:
  using Time = std::chrono::nanoseconds;  // since any fixed moment; never goes back
  static constexpr Time kRound = std::chrono::microseconds(10);

  explicit Turns(std::function<Time()> now) : now_(std::move(now)) {}

  // For this round, once each. `weight` > 0, of the sharer.
  void offer(const std::string& sharer, double weight, Item& item) {
    const auto [found, is_new] = numbers_.try_emplace(sharer, next_number_);
    if (is_new) ++next_number_;
    Sharer& entry = sharers_[found->second];
    if (is_new) entry.name = sharer;
    if (entry.weight != weight) queue_.set_weight(found->second, entry.weight = weight);
    if (entry.items.empty()) ++offering_;
    entry.items.push_back(&item);
    queue_.set_waiting(found->second, true);
  }

  // True if several sharers have been offered something for this round, and one that takes less than its part has
  // something quick: it would have to wait for long steps of the others.
  bool is_somebody_held_up() const {
    if (offering_ < 2) return false;
    const Time now = now_();
    double weights = 0;  // of those that share
    for (const auto& [number, sharer] : sharers_) {
      if (!sharer.items.empty() || sharer.part_at(now) > kNothing) weights += sharer.weight;
    }
    return std::any_of(sharers_.begin(), sharers_.end(), [&](const auto& entry) {
      const Sharer& sharer = entry.second;
      return sharer.part_at(now) < kLess * sharer.weight / weights &&
             std::any_of(sharer.items.begin(), sharer.items.end(), [](const Item* item) { return item->is_quick(); });
    });
  }

  // `step` returns whether another one may move anything. `took` gets the time that each step took, and returns whether
  // the round is to end. Forgets all that was offered. True if any step has returned true.
  template <typename Step, typename Took>
  bool run(const Step& step, const Took& took) {
    forget_absent();
    offering_ = 0;
    for (auto& [number, sharer] : sharers_) {
      const auto first = std::find(sharer.items.begin(), sharer.items.end(), sharer.first);
      if (first != sharer.items.end()) std::rotate(sharer.items.begin(), first, sharer.items.end());
    }
    const Time begin = now_();
    Time time = begin;
    bool moved = false;
    while (const std::optional<FairQueue::Client> next = queue_.next()) {
      Sharer& sharer = sharers_.at(*next);
      Item* const item = sharer.items.front();
      sharer.items.pop_front();
      const bool has_moved = step(*item);
      const Time end = now_();
      const bool is_over = took(*item, end - time);
      queue_.serve(*next, std::chrono::duration<double>(end - time).count());
      sharer.take(time, end);
      time = end;
      moved |= has_moved;
      if (has_moved) sharer.items.push_back(item);
      if (sharer.items.empty()) queue_.set_waiting(*next, false);
      if (is_over || time - begin >= kRound) break;
    }
    for (auto& [number, sharer] : sharers_) {
      sharer.first = sharer.items.empty() ? nullptr : sharer.items.front();
      sharer.items.clear();
    }
    return moved;
  }

 private:
  static constexpr Time kLately = std::chrono::milliseconds(1);
  static constexpr double kNothing = 0.01, kLess = 0.8;

  struct Sharer {
    // The part of the thread's time that it has taken lately; time counts for less the longer ago it was.
    double part_at(Time now) const {
      return part * std::exp(-std::chrono::duration<double>(now - taken_at) / std::chrono::duration<double>(kLately));
    }
    void take(Time begin, Time end) {
      part = part_at(end) + std::chrono::duration<double>(end - begin) / std::chrono::duration<double>(kLately);
      taken_at = end;
    }

    std::string name;
    double weight = 0;
    double part = 0;
    Time taken_at{0};
    std::deque<Item*> items;
    const Item* first = nullptr;  // of the next round, where it is still offered: the last one was cut short
  };

  // Sharers that are offered nothing cease to wait (their last round may have been cut short), and are forgotten while
  // there are more than kMostIdle sharers.
  void forget_absent() {
    for (auto each = sharers_.begin(); each != sharers_.end();) {
      if (!each->second.items.empty()) {
        ++each;
        continue;
      }
      queue_.set_waiting(each->first, false);
      if (sharers_.size() <= kMostIdle) {
        ++each;
        continue;
      }
      queue_.remove(each->first);
      numbers_.erase(each->second.name);
      each = sharers_.erase(each);
    }
  }

  static constexpr size_t kMostIdle = 64;
  // Some steps: a call of a few bytes wants several, with a peer's between.
  static constexpr Time kCredit = std::chrono::microseconds(50);
  const std::function<Time()> now_;
  FairQueue queue_{std::chrono::duration<double>(kCredit).count()};
  std::map<std::string, FairQueue::Client> numbers_;
  std::map<FairQueue::Client, Sharer> sharers_;
  FairQueue::Client next_number_ = 0;
  size_t offering_ = 0;
};

}  // namespace banyan::service
