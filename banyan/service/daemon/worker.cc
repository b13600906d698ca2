#include "banyan/service/daemon/worker.h"

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

WorkerClient::WorkerClient(const run::FileDescriptor& doorbell, RegionTable::Quota quota)
    : memory_(doorbell, sizeof(DoorbellPage)),
      page_(reinterpret_cast<DoorbellPage*>(memory_.data())),
      regions_(quota) {}

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

bool WorkerClient::step() {
  bool moved = answer(*page_, [&](uint32_t session) {
    if (sessions_.contains(session)) busy_.insert(session);
  });
  for (auto position = busy_.begin(); position != busy_.end();) {
    Session& session = *sessions_.at(*position);
    const bool has_moved = session.step(kSubmissionsAStep);
    moved |= has_moved;
    // One that moved may have left something in its ring.
    position = has_moved || session.is_busy() ? std::next(position) : busy_.erase(position);
  }
  return moved;
}

void WorkerClient::prepare(run::WaitSet& set) { set.watch(event_.fd(), POLLIN); }

bool WorkerClient::react(std::span<const pollfd> polled) {
  if ((polled.front().revents & POLLIN) == 0) return false;
  event_.clear();
  return true;
}

// ---- The thread ----

Worker::Worker(bool is_oversubscribed) : is_oversubscribed_(is_oversubscribed) {
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
    for (const auto& [number, client] : clients_) moved |= client->step();
    if (moved) {
      back_off.begin();
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
