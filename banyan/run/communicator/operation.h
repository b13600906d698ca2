// Operation: a call under way in the background, shared by who waits for it and by who carries it out.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/communicator/communicator.h"

namespace banyan::run {

class Operation {
 public:
  // Copies what the spans of the call point to.
  Operation(const Call& call, std::shared_ptr<Communicator::Impl> owner);

  const Call& call() const { return call_; }
  Communicator::Impl& owner() const { return *owner_; }

  bool is_over() const { return state_.load(std::memory_order_acquire) != kUnderWay; }
  // Its error, once it is over.
  const std::optional<Error>& error() const { return error_; }
  // By who carries it out, once. True when somebody is to be called back, by call_back().
  bool finish(const std::optional<Error>& error);
  void call_back();
  // Once it is over: see Request.
  void on_done(std::function<void()> callback);
  // Sleeps until it is over, or for so long.
  void wait(std::chrono::milliseconds at_most);

  // Of a message; used by who carries it out.
  uint64_t ticket = 0;
  uint32_t peer = 0;  // once it is over

 private:
  static constexpr uint32_t kUnderWay = 0, kOver = 1;

  Call call_;
  const std::shared_ptr<Communicator::Impl> owner_;
  std::vector<size_t> counts_[4];
  std::optional<Error> error_;
  std::atomic<uint32_t> state_{kUnderWay};
  std::atomic<uint32_t> waiters_{0};
  std::mutex mutex_;  // protects callbacks_
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace banyan::run
