// ExecutorsInForce: the executors that have the calls of a communicator which goes over from one to the next: the
// present one, the one before while its last calls are under way, and the counts of those that have ended.
//
// One thread drives: it alone replaces executors, and begins and ends calls. Any thread may call the functions that say
// so.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/execute/executor.h"

namespace banyan::service {

class ExecutorsInForce {
 public:
  // The first one, of generation 0.
  void begin_with(std::shared_ptr<run::Executor> first);
  // Later calls are those of `next`, of this generation. The one before must have been dropped.
  void go_over(std::shared_ptr<run::Executor> next, uint32_t generation);
  // The one before is not needed any more: the caller ends it. Null where there is none.
  std::shared_ptr<run::Executor> drop_before();
  // All, at the end.
  void drop_all();

  run::Executor& present() const { return *present_.executor; }
  bool has_before() const { return before_.executor != nullptr; }
  uint32_t generation_before() const { return before_.generation; }
  size_t calls() const { return present_.calls + before_.calls; }  // in flight
  size_t present_calls() const { return present_.calls; }
  size_t calls_before() const { return before_.calls; }
  // The executor of the oldest call. A caller that waits in it keeps it, since the call may go over meanwhile.
  const std::shared_ptr<run::Executor>& oldest() const {
    return before_.calls > 0 ? before_.executor : present_.executor;
  }

  void begin(const run::Call& call, const run::CallNumbers& numbers);
  // As run::Executor::advance, of the oldest call.
  bool advance();
  // The same, of all calls that oldest() has.
  void finish(run::Watch& watch);

  // Over all that there have been.
  uint64_t steps() const;
  uint64_t progress() const;
  bool can_do_without(uint32_t rank) const;

  // Any thread.
  uint32_t generation() const { return generation_.load(std::memory_order_acquire); }  // of the present one
  run::SentBytes sent_bytes() const;                                                   // of all that there have been
  void wake() const;
  void break_with(const Error& error) const;
  std::optional<Error> broken() const;

 private:
  struct Side {
    std::shared_ptr<run::Executor> executor;  // shared with who asks it something at the moment
    uint32_t generation = 0;
    size_t calls = 0;  // in flight
  };
  // Those that there are. Any thread.
  std::vector<std::shared_ptr<run::Executor>> both() const;

  Side present_, before_;
  std::atomic<uint32_t> generation_{0};
  uint64_t steps_ended_ = 0, progress_ended_ = 0;
  mutable std::mutex mutex_;  // protects sent_ended_, and the pointers from those who are not the thread that drives
  run::SentBytes sent_ended_;
};

}  // namespace banyan::service
