// WorkerWatch: whether the thread of a worker still comes round, for whoever ends a daemon that hangs. The thread that
// answers clients and operators may be well while the one that carries out their calls is not.
//
// To be looked at twice in the time that the worker is given (WatchdogSec=). Each look asks the worker, by a task,
// unless a question is still open. A worker that has answered none since the look before is named in the log, with the
// time since the question, and after one more look nobody is told any more that the daemon lives. All goes on once it
// answers. Looks are counted, and time is not: a process that was stopped as a whole finds its worker as it was.
//
// One thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace banyan::service {

class WorkerWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // `name`: of the thread, for the log. `post` has it do a task.
  WorkerWatch(std::string name, std::function<void(std::function<void()> task)> post);

  // True if the daemon may be said to live, as far as this worker goes.
  bool look(TimePoint now);

 private:
  const std::string name_;
  const std::function<void(std::function<void()>)> post_;
  const std::shared_ptr<std::atomic<bool>> has_answered_;  // shared with the task that is its question
  TimePoint asked_;
  uint32_t looks_in_vain_ = 0;
};

}  // namespace banyan::service
