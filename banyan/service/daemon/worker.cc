#include "banyan/service/daemon/worker.h"

#include <pthread.h>
#include <time.h>

#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/system/back_off.h"
#include "banyan/run/system/thread.h"

namespace banyan::service {
namespace {

constexpr size_t kSubmissionsAStep = 16;
constexpr std::chrono::milliseconds kLongestSleep{100};

}  // namespace

// ---- A client ----

WorkerClient::WorkerClient(const run::FileDescriptor& doorbell, RegionTable::Quota quota, RegionTable::Hooks hooks)
    : memory_(doorbell, sizeof(DoorbellPage)),
      page_(reinterpret_cast<DoorbellPage*>(memory_.data())),
      regions_(quota, std::move(hooks)) {}

void WorkerClient::add(uint32_t number, std::unique_ptr<Session> session) {
  if (sessions_.try_emplace(number, std::move(session)).second) return;
  throw Error(ErrorCode::invalid_usage, "there is a session " + std::to_string(number) + " already");
}

void WorkerClient::remove(uint32_t number) {
  busy_.erase(number);
  sessions_.erase(number);
}

void WorkerClient::remove_all() {
  busy_.clear();
  sessions_.clear();
}

Session* WorkerClient::find(uint32_t number) {
  const auto found = sessions_.find(number);
  return found == sessions_.end() ? nullptr : found->second.get();
}

bool WorkerClient::offer(Turns<Session>& turns) {
  const bool has_rung = answer(*page_, [&](uint32_t session) {
    if (sessions_.contains(session)) busy_.insert(session);
  });
  for (const uint32_t number : busy_) {
    Session& session = *sessions_.at(number);
    session.expect_step();
    turns.offer(session.tenant(), session.weight(), session);
  }
  return has_rung;
}

void WorkerClient::look() {
  std::erase_if(busy_, [&](uint32_t number) {
    const Session& session = *sessions_.at(number);
    return !session.may_move() && !session.is_busy();
  });
}

void WorkerClient::prepare(run::WaitSet& set) { set.watch(event_.fd(), POLLIN); }

bool WorkerClient::react(std::span<const pollfd> polled) {
  if ((polled.front().revents & POLLIN) == 0) return false;
  event_.clear_shared();
  return true;
}

// ---- The thread ----

Worker::Worker(bool is_oversubscribed)
    : is_oversubscribed_(is_oversubscribed),
      turns_([] { return std::chrono::steady_clock::now().time_since_epoch(); }) {
  thread_ = run::start_thread("banyan-worker", [this] { run(); });
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  event_.set();
  thread_.join();
}

void Worker::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  CHECK(event_.set()) << "the worker cannot be woken";
}

std::chrono::nanoseconds Worker::core_time() {
  clockid_t clock{};
  timespec time{};
  const bool is_known = pthread_getcpuclockid(thread_.native_handle(), &clock) == 0 && clock_gettime(clock, &time) == 0;
  return is_known ? std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)
                  : std::chrono::nanoseconds(0);
}

void Worker::add(uint64_t client, std::shared_ptr<WorkerClient> memory) {
  CHECK(clients_.try_emplace(client, std::move(memory)).second) << "client " << client;
}

void Worker::remove(uint64_t client) { clients_.erase(client); }

void Worker::run() {
  run::BackOff back_off(is_oversubscribed_, run::BackOff::Look::dear);
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stops_) break;
    }
    bool moved = do_tasks();
    for (const auto& [number, client] : clients_) moved |= client->offer(turns_);
    moved |= turns_.run([](Session& session) { return session.step(kSubmissionsAStep); },
                        [](Session& session, std::chrono::nanoseconds time) { session.bill(time); });
    for (const auto& [number, client] : clients_) client->look();
    if (moved) {
      back_off.end();
    } else if (!back_off.pause()) {
      sleep();
      back_off.slept();
    }
  }
  do_tasks();
  clients_.clear();
}

bool Worker::do_tasks() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks = std::exchange(tasks_, {});
  }
  for (Task& task : tasks) {
    task();
    task = nullptr;  // with what it holds: the next one may end that
  }
  return !tasks.empty();
}

void Worker::sleep() {
  run::Waiter waiter(*this);
  bool has_rung = false;
  for (const auto& [number, client] : clients_) {
    client->doorbell().daemon_sleeps.store(1);
    has_rung |= client->has_rung();
    waiter.add(*client);
    for (const uint32_t session : client->busy()) waiter.add(*client->find(session));
  }
  if (!has_rung) waiter.wait(kLongestSleep);
  for (const auto& [number, client] : clients_) client->doorbell().daemon_sleeps.store(0);
}

bool Worker::react(std::span<const pollfd> polled) {
  if ((polled.front().revents & POLLIN) == 0) return false;
  event_.clear();
  return true;
}

}  // namespace banyan::service
