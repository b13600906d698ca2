// Work that another thread does for an executor, such as the search for plans.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "banyan/base/error.h"

namespace banyan::run {

// Runs a task, which throws nothing, on another thread.
using Background = std::function<void(std::function<void()> task)>;

// Wakes somebody who may be gone by then. Any thread.
class LastingWake {
 public:
  explicit LastingWake(std::function<void()> wake) : wake_(std::move(wake)) {}
  void wake() {
    const std::lock_guard lock(mutex_);
    if (wake_) wake_();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    wake_ = {};
  }

 private:
  std::mutex mutex_;  // protects wake_
  std::function<void()> wake_;
};

// A value, or why there is none.
template <typename Value>
using Made = std::variant<Value, Error>;

// Has a value made in the background, at once if that is empty. `make` throws nothing but Error; `wake` is called when
// it is through. The future may be forgotten before.
template <typename Make, typename Value = std::invoke_result_t<Make>>
std::future<Made<Value>> make_in(const Background& background, const Make& make, const std::function<void()>& wake) {
  const auto promise = std::make_shared<std::promise<Made<Value>>>();
  const auto task = [promise, make, wake] {
    try {
      promise->set_value(make());
    } catch (const Error& error) {
      promise->set_value(error);
    }
    wake();
  };
  std::future<Made<Value>> made = promise->get_future();
  background ? background(task) : task();
  return made;
}

template <typename Future>
bool is_made(const Future& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace banyan::run
