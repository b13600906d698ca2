// InOrder: tasks that come in any order, done one at a time in the order of their numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace banyan::pytorch {

// Any thread. A task may call run(); it throws nothing.
class InOrder {
 public:
  // From 0; each is to come once.
  uint64_t next_number() {
    const std::lock_guard lock(mutex_);
    return given_++;
  }

  // Does the task, and those that have waited for it; or leaves it to the thread that does the one before it.
  void run(uint64_t number, std::function<void()> what) {
    std::unique_lock lock(mutex_);
    come_.emplace(number, std::move(what));
    if (is_busy_) return;
    is_busy_ = true;
    for (auto next = come_.begin(); next != come_.end() && next->first == done_; next = come_.begin()) {
      const std::function<void()> one = std::move(next->second);
      come_.erase(next);
      ++done_;
      lock.unlock();
      one();
      lock.lock();
    }
    is_busy_ = false;
  }

 private:
  std::mutex mutex_;  // protects all
  std::map<uint64_t, std::function<void()>> come_;
  uint64_t given_ = 0, done_ = 0;
  bool is_busy_ = false;
};

}  // namespace banyan::pytorch
