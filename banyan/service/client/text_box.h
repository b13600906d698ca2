// TextBox: where other threads leave texts, and word that there is something to look at, for the thread that drives a
// communicator.
//
// Any thread. Orders (testing/orders): a thread that leaves something stores it before, and says so by a release. The
// taker reads the last of these stores by an acquire, and no earlier one: else something noted meanwhile would be
// neither seen nor announced.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace banyan::service {

class TextBox {
 public:
  void put(const std::string& text) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
    note();
  }
  void note() { has_news_.store(true, std::memory_order_release); }
  // Since the last take(). One atomic load.
  bool has_news() const { return has_news_.load(std::memory_order_relaxed); }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    has_news_.exchange(false, std::memory_order_acquire);
    return std::exchange(texts_, {});
  }

 private:
  std::atomic<bool> has_news_{false};
  std::mutex mutex_;  // protects texts_
  std::vector<std::string> texts_;
};

}  // namespace banyan::service
