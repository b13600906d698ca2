// FirstError: the error with which a communicator has failed. The first one stays.
//
// Any thread. A thread that waits for it sleeps; other news, which may tell the cause of the error, wakes it, too.
// Orders (testing/orders): the error and the number of news are published with release and read with acquire. A waiter
// reads the number of news before it looks for anything new, and sleeps only while the number is the same.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "banyan/base/error.h"
#include "banyan/run/system/futex.h"

namespace banyan::run {

class FirstError {
 public:
  // False when there was one before.
  bool note(const Error& error) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (is_set()) return false;
      error_ = error;
      is_set_.store(true, std::memory_order_release);
    }
    announce_news();
    return true;
  }
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  // Once it is set.
  const Error& get() const { return *error_; }
  void expect_none() const {
    if (is_set()) throw Error(get());
  }

  // The number of news so far; it grows.
  uint32_t news() const { return news_.load(std::memory_order_acquire); }
  void announce_news() {
    news_.fetch_add(1, std::memory_order_release);
    futex_wake_all(news_);
  }
  // Sleeps until there is more news than `seen`, or for so long.
  void wait_for_news(uint32_t seen, std::chrono::milliseconds at_most) { futex_wait(news_, seen, at_most); }

 private:
  std::atomic<bool> is_set_{false};
  std::mutex mutex_;  // protects error_ until it is set
  std::optional<Error> error_;
  std::atomic<uint32_t> news_{0};
};

}  // namespace banyan::run
