// Worker: a thread that carries out the calls of clients of a daemon (workers.h).
//
// One loop: it answers doorbells, gives the sessions that have work their steps, by tenants in turn (turns.h), and
// sleeps when nothing moves, until a client rings or a peer sends. Sessions without work cost it nothing, nor do those
// whose last steps found nothing, until what they wait for happens, or Session::kLongestWait is over. A client has one
// doorbell and one descriptor, whatever the number of its sessions. In each round an account (tenant_quota.h) has so
// many rings answered and so many sessions offered steps; the others wait (busy_queue.h).
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
#include <unordered_map>
#include <vector>

#include "banyan/run/net/step_budget.h"
#include "banyan/run/system/event.h"
#include "banyan/run/system/event_source.h"
#include "banyan/run/system/poller.h"
#include "banyan/run/system/waiter.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/rings.h"
#include "banyan/service/session/busy_queue.h"
#include "banyan/service/session/session.h"
#include "banyan/service/session/turns.h"

namespace banyan::service {

class Worker;
class WorkerClient;

// A session that may have work.
struct BusySession {
  WorkerClient* client = nullptr;
  uint32_t number = 0;
  Session* session = nullptr;
};
using BusySessions = BusyQueue<BusySession>;

// The part of a client that its worker has: memory, doorbell and sessions.
class WorkerClient : public run::EventSource {
 public:
  // `worker`: to which it belongs. `doorbell`: memory of a DoorbellPage. Throws what Region throws.
  WorkerClient(Worker& worker, Region doorbell, RegionTable::Quota quota, RegionTable::Hooks hooks = {});
  ~WorkerClient() = default;

  // The worker whose tasks alone may use the rest. Any thread, while the daemon lives.
  Worker& worker() const { return worker_; }
  // To be set by the client when the worker sleeps. Any thread.
  int event_fd() const { return event_.fd(); }
  RegionTable& regions() { return regions_; }
  DoorbellPage& doorbell() { return *page_; }

  void add(uint32_t number, std::unique_ptr<Session> session);  // Error{invalid_usage} where there is one
  void remove(uint32_t number);
  void remove_all();
  Session* find(uint32_t number);
  // Its sessions wait for steps in this queue, which is set before there are any and stays until none is left.
  void queue_in(BusySessions& queue) { queue_ = &queue; }
  // Gives it a step, though its client has not rung.
  void rouse(uint32_t number);
  // Rouses those whose moment has come.
  void rouse_due();
  // Rouses those for which the doorbell was rung, as answer() does at this cost. Returns what it has cost.
  size_t answer_doorbell(size_t most);
  // To be called after a turn of one of its sessions: a session that has no work leaves, and so does one of which this
  // many steps found nothing, until the poller rouses it.
  AfterTurn look_at(uint32_t number, run::Poller& poller, uint32_t most_vain_steps);
  bool has_rung() const { return rung_groups_ != 0 || page_->groups.load() != 0; }
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
  BusySessions* queue_ = nullptr;
  std::unordered_map<uint32_t, BusySessions::Place> busy_;
  uint64_t rung_groups_ = 0;  // of the doorbell, that are to be answered
  std::set<uint32_t> timed_;  // that are not, but may have a moment at which they are (Session::poll_at)
  std::map<uint32_t, run::Poller*> waiting_;  // and who watches them
};

// A session, for those who are not on the thread of its worker.
struct SessionPlace {
  std::shared_ptr<WorkerClient> memory;  // shared with its worker
  uint32_t number = 0;                   // among those of its client

  // Has this done with the session on its worker's thread, and then gives it a step. A session that has ended gets
  // neither.
  void act(std::function<void(Session& session)> task) const;
};

class Worker : private run::EventSource {
 public:
  explicit Worker(bool is_oversubscribed);
  // Ends the thread, and all sessions.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  using Task = std::function<void()>;
  // Any thread. A task that throws is a bug of our own.
  void post(Task task);

  // The budget of each step, which it sets; shared with those who take steps on its thread.
  const std::shared_ptr<run::StepBudget>& budget() const { return budget_; }
  // CPU time of its thread, since it began. Any thread.
  std::chrono::nanoseconds core_time();

  // For tasks. `account`: its number.
  void add(uint64_t client, uint32_t account, std::shared_ptr<WorkerClient> memory);
  // With all of its sessions.
  void remove(uint64_t client);

 private:
  struct Account {
    bool offer(Turns<Session>& turns);
    bool answer_doorbells();
    void look(run::Poller& poller, uint32_t most_vain_steps);

    BusySessions busy;
    std::map<uint64_t, std::shared_ptr<WorkerClient>> clients;  // shared with their connections
    uint64_t next = 0;                                          // client whose doorbell is answered first
  };

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
  run::Poller poller_;                    // of sessions that wait
  std::map<uint32_t, Account> accounts_;  // by number
  Turns<Session> turns_;
  std::thread thread_;
};

}  // namespace banyan::service
