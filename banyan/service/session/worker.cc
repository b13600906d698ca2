#include "banyan/service/session/worker.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/system/back_off.h"
#include "banyan/run/system/thread.h"

namespace banyan::service {
namespace {

constexpr size_t kSubmissionsAStep = 16;
// The kernel's word, for all connections of all sessions at once, costs no more than the vain look of one.
constexpr uint32_t kMostVainSteps = 1;
constexpr std::chrono::milliseconds kLongestSleep{100};
// Of an account, in a round: as many as each of 32 clients that ring for one session.
constexpr size_t kMostAnswered = 64;
// Some 10 us and 33 us, more where memory is new.
constexpr size_t kShortStepBytes = size_t{32} << 10, kLongStepBytes = size_t{256} << 10;
// After a quick session had to share the thread: small calls come with pauses.
constexpr std::chrono::milliseconds kHurried{2};
// Programs have longer ones: so the worker has the core as soon as something comes for it.
constexpr std::chrono::microseconds kTimeSlice{100};

}  // namespace

// ---- A client ----

WorkerClient::WorkerClient(Worker& worker, Region doorbell, RegionTable::Quota quota, RegionTable::Hooks hooks)
    : worker_(worker),
      memory_(std::move(doorbell)),
      page_(reinterpret_cast<DoorbellPage*>(memory_.data())),
      regions_(quota, std::move(hooks)) {}

void WorkerClient::add(uint32_t number, std::unique_ptr<Session> session) {
  if (sessions_.try_emplace(number, std::move(session)).second) return;
  throw Error(ErrorCode::invalid_usage, "there is a session " + std::to_string(number) + " already");
}

void WorkerClient::remove(uint32_t number) {
  const auto busy = busy_.find(number);
  if (busy != busy_.end()) {
    queue_->remove(busy->second);
    busy_.erase(busy);
  }
  timed_.erase(number);
  stop_waiting(number);
  sessions_.erase(number);
}

void WorkerClient::remove_all() {
  while (!sessions_.empty()) remove(sessions_.begin()->first);
}

void WorkerClient::rouse(uint32_t number) {
  // It waits for a step already.
  if (busy_.contains(number)) return;
  const auto session = sessions_.find(number);
  if (session == sessions_.end()) return;
  stop_waiting(number);
  timed_.erase(number);
  busy_.emplace(number, queue_->add({.client = this, .number = number, .session = session->second.get()}));
}

void WorkerClient::stop_waiting(uint32_t number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  found->second->forget(*sessions_.at(number));
  waiting_.erase(found);
}

Session* WorkerClient::find(uint32_t number) {
  const auto found = sessions_.find(number);
  return found == sessions_.end() ? nullptr : found->second.get();
}

size_t WorkerClient::answer_doorbell(size_t most) {
  return answer(*page_, rung_groups_, most, [&](uint32_t session) { rouse(session); });
}

void WorkerClient::rouse_due() {
  if (timed_.empty()) return;
  const auto now = Session::Clock::now();
  for (auto each = timed_.begin(); each != timed_.end();) {
    const uint32_t number = *each;
    const auto due = sessions_.at(number)->poll_at();
    each = !due || *due <= now ? timed_.erase(each) : std::next(each);
    if (due && *due <= now) rouse(number);
  }
}

AfterTurn WorkerClient::look_at(uint32_t number, run::Poller& poller, uint32_t most_vain_steps) {
  const Session& session = *sessions_.at(number);
  // It has had no step yet since one was offered.
  if (!session.has_stepped()) return AfterTurn::stays;
  if (session.may_move()) return AfterTurn::waits_again;
  // A session whose steps found nothing leaves, if the poller can tell when that changes.
  if (session.is_busy() && (session.vain_steps() < most_vain_steps || !wait_for(number, poller))) {
    return AfterTurn::waits_again;
  }
  if (!session.is_busy() && session.poll_at()) timed_.insert(number);
  busy_.erase(number);
  return AfterTurn::leaves;
}

// Whether the poller watches it: nothing has happened yet.
bool WorkerClient::wait_for(uint32_t number, run::Poller& poller) {
  Session& session = *sessions_.at(number);
  try {
    if (!poller.watch(session, [this, number] { rouse(number); })) return false;
    waiting_.emplace(number, &poller);
    return true;
  } catch (const Error& error) {
    session.fail(error);
    return false;
  }
}

void WorkerClient::prepare(run::WaitSet& set) {
  set.watch(event_.fd(), POLLIN);
  for (const uint32_t number : timed_) {
    if (const auto due = sessions_.at(number)->poll_at()) set.wake_at(*due);
  }
}

bool WorkerClient::is_somebody_due() const {
  const auto now = Session::Clock::now();
  return std::any_of(timed_.begin(), timed_.end(), [&](uint32_t number) {
    const auto due = sessions_.at(number)->poll_at();
    return due && *due <= now;
  });
}

bool WorkerClient::react(std::span<const pollfd> polled) {
  if ((polled.front().revents & POLLIN) == 0) return is_somebody_due();
  event_.clear_shared();
  return true;
}

// ---- A session ----

void SessionPlace::act(std::function<void(Session& session)> task) const {
  memory->worker().post([place = *this, task = std::move(task)] {
    Session* const session = place.memory->find(place.number);
    if (session == nullptr) return;
    task(*session);
    place.memory->rouse(place.number);
  });
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

void Worker::add(uint64_t client, uint32_t account, std::shared_ptr<WorkerClient> memory) {
  Account& of = accounts_[account];
  memory->queue_in(of.busy);
  CHECK(of.clients.try_emplace(client, std::move(memory)).second) << "client " << client;
}

void Worker::remove(uint64_t client) {
  for (auto& [number, account] : accounts_) {
    const auto found = account.clients.find(client);
    if (found == account.clients.end()) continue;
    found->second->remove_all();
    account.clients.erase(found);
    if (account.clients.empty()) accounts_.erase(number);
    return;
  }
}

// ---- An account ----

// Where its rings cost too much for this round, the next one goes on with the next client.
bool Worker::Account::answer_doorbells() {
  size_t cost = 0;
  auto each = clients.lower_bound(next);
  for (size_t left = clients.size(); left > 0 && cost < kMostAnswered; --left, ++each) {
    if (each == clients.end()) each = clients.begin();
    cost += each->second->answer_doorbell(kMostAnswered - cost);
    next = each->first + 1;
  }
  return cost > 0;
}

bool Worker::Account::offer(Turns<Session>& turns) {
  const bool has_rung = answer_doorbells();
  for (const auto& [number, client] : clients) client->rouse_due();
  const bool others_wait = busy.offer([&](const BusySession& each) {
    each.session->expect_step();
    turns.offer(each.session->sharer(), each.session->weight(), *each.session);
  });
  return has_rung || others_wait;
}

void Worker::Account::look(run::Poller& poller, uint32_t most_vain_steps) {
  busy.settle([&](const BusySession& each) { return each.client->look_at(each.number, poller, most_vain_steps); });
}

// ---- Its rounds ----

void Worker::run() {
  run::ask_for_time_slice(kTimeSlice);
  run::BackOff back_off(is_oversubscribed_, run::BackOff::Look::dear);
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stops_) break;
    }
    // A round: tasks, what the poller has seen, offers of all accounts, their turns, and a look at what came of them.
    bool moved = do_tasks();
    poller_.look();
    for (auto& [number, account] : accounts_) moved |= account.offer(turns_);
    set_budget();
    moved |= take_turns();
    for (auto& [number, account] : accounts_) account.look(poller_, kMostVainSteps);
    if (moved) {
      back_off.end();
    } else if (!back_off.pause()) {
      sleep();
      back_off.slept();
    }
  }
  do_tasks();
  accounts_.clear();
}

// Each step costs some 6 us beside its bytes, most of it in the kernel, so long ones serve more. But whoever makes
// small calls would wait for them.
void Worker::set_budget() {
  const auto now = std::chrono::steady_clock::now();
  if (turns_.is_somebody_held_up()) hurried_until_ = now + kHurried;
  budget_->bytes = now < hurried_until_ ? kShortStepBytes : kLongStepBytes;
}

bool Worker::take_turns() {
  // Sharers take turns by what their sessions cost, so a long step of one is paid for by its own sharer.
  bool has_woken = false, moved = false;
  turns_.run(
      [&](Session& session) {
        moved |= session.step(kSubmissionsAStep);
        return session.may_move();
      },
      [&](Session& session, std::chrono::nanoseconds time) {
        session.bill(time);
        return has_woken = is_oversubscribed_ && session.take_woken();
      });
  if (has_woken) std::this_thread::yield();
  return moved;
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
  bool has_work = false;
  for (auto& [number, account] : accounts_) {
    for (const auto& [client_number, client] : account.clients) {
      // It says that it sleeps before it looks for the last time: a client that rings after that look wakes it.
      client->doorbell().daemon_sleeps.store(1);
      has_work |= client->has_rung();
      waiter.add(*client);
    }
    // Before it sleeps, all that the poller can watch is handed to it.
    account.look(poller_, 0);
    has_work |= !account.busy.is_empty();
  }
  waiter.add(poller_);
  if (!has_work) waiter.wait(kLongestSleep);
  for (const auto& [number, account] : accounts_) {
    for (const auto& [client_number, client] : account.clients) client->doorbell().daemon_sleeps.store(0);
  }
}

bool Worker::react(std::span<const pollfd> polled) {
  if ((polled.front().revents & POLLIN) == 0) return false;
  event_.clear();
  return true;
}

}  // namespace banyan::service
