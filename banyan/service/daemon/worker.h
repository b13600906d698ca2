// Worker: a thread that carries out the calls of clients of a daemon (workers.h).
//
// One loop: it answers doorbells, gives the sessions that have work their steps, by tenants in turn (turns.h), and
// sleeps when nothing moves, until a client rings or a peer sends. Sessions without work cost it nothing, nor do those
// whose last steps found nothing, until what they wait for happens, or Session::kLongestWait is over. A client has one
// doorbell and one descriptor, whatever the number of its sessions.
//
// Other threads leave it tasks by post(). Everything else is for such tasks, on its thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/net/step_budget.h"
#include "banyan/run/system/event.h"
#include "banyan/run/system/event_source.h"
#include "banyan/run/system/poller.h"
#include "banyan/run/system/waiter.h"
#include "banyan/service/daemon/session.h"
#include "banyan/service/daemon/turns.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/rings.h"

namespace banyan::service {

class Worker;

// What the worker has of a client.
class WorkerClient : public run::EventSource {
 public:
  // `worker`: to which it belongs. `doorbell`: memory of a DoorbellPage. Throws what Region throws.
  WorkerClient(Worker& worker, Region doorbell, RegionTable::Quota quota, RegionTable::Hooks hooks = {});
  ~WorkerClient() = default;

  // Whose tasks may use the rest. Any thread, while the daemon lives.
  Worker& worker() const { return worker_; }
  // To be set by the client when the worker sleeps. Any thread.
  int event_fd() const { return event_.fd(); }
  RegionTable& regions() { return regions_; }
  DoorbellPage& doorbell() { return *page_; }

  void add(uint32_t number, std::unique_ptr<Session> session);  // Error{invalid_usage} where there is one
  void remove(uint32_t number);
  void remove_all();
  Session* find(uint32_t number);
  // Gives it a step, though its client has not rung.
  void rouse(uint32_t number);
  // Answers the doorbell, and offers those that may have work, or whose moment has come. Whether it has rung.
  bool offer(Turns<Session>& turns);
  // After their steps: those that have no work cease to be busy, and so do those of which this many steps found
  // nothing, until the poller rouses them. Whether none is busy any more.
  bool look(run::Poller& poller, uint32_t most_vain_steps);
  bool has_rung() const { return page_->groups.load() != 0; }
  const std::map<uint32_t, std::unique_ptr<Session>>& sessions() const { return sessions_; }

 private:
  void prepare(run::WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;
  bool wait_for(uint32_t number, run::Poller& poller);
  void stop_waiting(uint32_t number);
  bool is_somebody_due() const;

  Worker& worker_;
  run::Event event_;
  const Region memory_;  // of the page
  DoorbellPage* const page_;
  RegionTable regions_;
  std::map<uint32_t, std::unique_ptr<Session>> sessions_;
  std::set<uint32_t> busy_;
  std::set<uint32_t> timed_;  // that are not, but may have a moment at which they are (Session::attend_at)
  std::map<uint32_t, run::Poller*> waiting_;  // and who watches them
};

class Worker : private run::EventSource {
 public:
  explicit Worker(bool is_oversubscribed);
  // Ends the thread, and all sessions.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  using Task = std::function<void()>;
  // Any thread. What a task throws is our own bug.
  void post(Task task);

  // Of each step, which it sets; shared with those who take steps on its thread.
  const std::shared_ptr<run::StepBudget>& budget() const { return budget_; }
  // CPU time of its thread, since it began. Any thread.
  std::chrono::nanoseconds core_time();

  // For tasks.
  void add(uint64_t client, std::shared_ptr<WorkerClient> memory);
  void remove(uint64_t client);

 private:
  void run();
  bool take_turns();
  void set_budget();
  bool do_tasks();
  void sleep();
  void prepare(run::WaitSet& set) override { set.watch(event_.fd(), POLLIN); }
  bool react(std::span<const pollfd> polled) override;

  const bool is_oversubscribed_;
  const std::shared_ptr<run::StepBudget> budget_ = std::make_shared<run::StepBudget>();
  std::chrono::steady_clock::time_point hurried_until_{};
  run::Event event_;
  std::mutex mutex_;  // protects tasks_ and stops_
  std::vector<Task> tasks_;
  bool stops_ = false;
  run::Poller poller_;                                         // of sessions that wait
  std::map<uint64_t, std::shared_ptr<WorkerClient>> clients_;  // shared with their connections
  Turns<Session> turns_;
  std::thread thread_;
};

}  // namespace banyan::service
