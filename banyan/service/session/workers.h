// Workers: the threads of a daemon that carry out calls (worker.h). A client belongs to one of them for its life, and
// so do its sessions. So workers have nothing to wait for each other for, and fairness (turns.h) is among the clients
// of one worker.
//
// On the thread of the reactor whose mailbox it has, unless a function says otherwise.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/session/worker.h"

namespace banyan::service {

class Workers {
 public:
  static constexpr uint32_t kMost = 64;
  static constexpr size_t kCoresForEach = 8;
  // The number of workers that fits a daemon that may use so many cores; 0 cores: not known.
  static uint32_t fitting(size_t cores) {
    return static_cast<uint32_t>(std::clamp<size_t>(cores / kCoresForEach, 1, kMost));
  }

  // Throws Error{invalid_input} unless `count` is from 1 to kMost.
  Workers(uint32_t count, bool is_oversubscribed, std::shared_ptr<run::Mailbox> mailbox);
  // Ends all threads, and all sessions.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  size_t size() const { return workers_.size(); }
  Worker& operator[](size_t number) { return *workers_.at(number); }
  // That to which fewest of these belong, the first of several.
  Worker& least_of(std::span<const std::shared_ptr<WorkerClient>> clients);
  // CPU time of all threads, since they began.
  std::chrono::nanoseconds core_time();
  // Has `ask` done on the thread of each worker, one after the other, and then `done` on the reactor's: never, when one
  // of them hangs or the reactor has ended.
  using Ask = std::function<void(const Worker& worker)>;
  void ask_each(Ask ask, std::function<void()> done);

 private:
  struct Question;
  void ask_from(size_t number, const std::shared_ptr<const Question>& question);

  const std::shared_ptr<run::Mailbox> mailbox_;   // shared with the reactor
  std::vector<std::unique_ptr<Worker>> workers_;  // a task of one may use those behind it, which end later
};

// WorkerWatch: whether the thread of a worker still comes round, for whoever ends a daemon that hangs. The thread that
// answers clients and operators may be well while the one that carries out their calls is not.
//
// To be looked at twice in the time that the worker is given (WatchdogSec=). Each look asks the worker, by a task,
// unless a question is still open. A worker that has answered none since the look before is named in the log, with the
// time since the question, and after one more look nobody is told any more that the daemon lives. All goes on once it
// answers. Looks are counted, and time is not: a process that was stopped as a whole finds its worker as it was.
//
// One thread.
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
