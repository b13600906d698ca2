// Operation: a call under way in the background, shared by who waits for it and by who carries it out.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"

namespace banyan::run {

class Driver;

class Operation {
 public:
  // Copies what the spans of the call point to.
  Operation(const Call& call, std::shared_ptr<Driver> driver);

  const Call& call() const { return call_; }
  Driver& driver() const { return *driver_; }

  bool is_over() const { return is_over_.load(std::memory_order_seq_cst); }
  // Its error, once it is over.
  const std::optional<Error>& error() const { return error_; }
  // By the driver, once. True when somebody is to be called back, by call_back().
  bool finish(const std::optional<Error>& error);
  void call_back();
  // Once it is over: see Request.
  void on_done(std::function<void()> callback);

  // Of a message; used by the driver.
  uint64_t ticket = 0;
  uint32_t peer = 0;  // once it is over

 private:
  Call call_;
  const std::shared_ptr<Driver> driver_;  // shared with the communicator, whose requests may outlive it
  std::vector<size_t> counts_[4];
  std::optional<Error> error_;
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;  // protects callbacks_
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace banyan::run
