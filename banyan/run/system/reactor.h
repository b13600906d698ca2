// Reactor: one thread that waits for many things.
//
// Descriptors, moments and messages from other threads; each is answered by a function, one after the other. It sleeps
// in epoll when there is nothing to do. While it has timers it looks at the clock every AwakeTime::kLongestSleep, so
// that time in which the process was stopped brings no moment nearer. An error that such a function throws goes to the
// owner (run()); the others are served on.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/system/awake_time.h"
#include "banyan/run/system/event.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/timers.h"

namespace banyan::run {

// A queue in which other threads leave work for a reactor. May outlive it: then nobody does the work.
class Mailbox {
 public:
  using Task = std::function<void()>;

  Mailbox() = default;  // throws Error{io}
  // False when the reactor has ended, and `task` will not run. Throws Error{io} when the reactor cannot be woken.
  bool post(Task task);

 private:
  friend class Reactor;
  std::vector<Task> take();
  void ask_to_stop() noexcept;
  void close() noexcept;

  Event event_;
  std::mutex mutex_;  // protects what follows
  std::vector<Task> tasks_;
  bool is_closed_ = false;
  std::atomic<bool> shall_stop_{false};
};

// All but mailbox() and stop() belong to the thread that calls run(), or to the owner before that.
//
// A child that the process forks gets no copy of the descriptors that are watched at that moment: it would keep
// connections open, and doors, when its parent has died. While a reactor runs handlers, a fork waits for their end, but
// all reactors together hold it up for a second at most.
class Reactor final : public Timers {
 public:
  using Handler = std::function<void(uint32_t events)>;

  // Throws Error{io}. `time` outlives it.
  explicit Reactor(const TimeSource& time = AwakeTime::instance());
  ~Reactor() override;

  // Calls `handler` while one of `events` (EPOLLIN, ...) is there. Throws Error{io}.
  void watch(int fd, uint32_t events, Handler handler);
  void change(int fd, uint32_t events);
  // Before the descriptor is closed. Unknown ones are ignored.
  void forget(int fd);

  TimePoint now() const override { return time_.now(); }
  // After all events that came before.
  Timer at(TimePoint when, std::function<void()> task) override;
  void cancel(const Timer& timer) override { timers_.erase(timer); }

  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  // Until stop(). `failed` gets what a handler, a timer or a posted task has thrown, or the refusal of epoll; it throws
  // nothing itself.
  using Failed = std::function<void(const Error& error)>;
  void run(const Failed& failed) noexcept;
  // Any thread. Work that was posted before is done; what is posted later is not.
  void stop() noexcept { mailbox_->ask_to_stop(); }

 private:
  friend class ReactorsAtFork;
  struct Watch {
    uint64_t number = 0;  // tells a descriptor from its predecessor of the same number
    Handler handler;
  };
  void run_once(const Failed& failed);
  void serve(const epoll_event& event);
  void run_timer();
  void run_tasks();
  int sleep_time() const;

  const TimeSource& time_;
  FileDescriptor epoll_;
  std::mutex fork_mutex_;                                    // held by a fork, and while watches_ changes
  std::timed_mutex serving_mutex_;                           // held by a fork, and while anything is served
  std::shared_ptr<Mailbox> mailbox_;                         // shared with those who post
  std::unordered_map<int, std::shared_ptr<Watch>> watches_;  // a handler may forget itself while it runs
  std::map<Timer, std::function<void()>> timers_;
  uint64_t next_number_ = 0;
};

}  // namespace banyan::run
