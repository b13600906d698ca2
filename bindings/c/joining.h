// Joining: makes a communicator in a thread of its own, for who does not want to wait for it (config.blocking).
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/fork_guard.h"

namespace banyan::c {

// Any thread.
class Joining {
 public:
  using Join = std::function<run::Communicator(std::stop_token)>;
  // Throws Error{io} when no thread can be started.
  explicit Joining(Join join);
  // Has it give up, which takes seconds at most, and waits for that.
  ~Joining();
  Joining(const Joining&) = delete;
  Joining& operator=(const Joining&) = delete;

  // Has it give up; aborts the communicator when it has just been made.
  void stop() noexcept { stop_.request_stop(); }
  bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }
  // Once it is over: why there is no communicator, if there is none.
  const std::optional<Error>& error() const { return error_; }
  // Throws Error{invalid_usage} before it is over, and what joining threw.
  run::Communicator& communicator();

 private:
  void run(const Join& join) noexcept;

  std::stop_source stop_;
  std::optional<run::Communicator> communicator_;
  std::optional<Error> error_;
  std::atomic<bool> is_over_{false};  // then the two are written no more
  const run::ForkGuard fork_guard_;
  std::thread thread_;
};

}  // namespace banyan::c
