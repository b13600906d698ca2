#include "banyan/service/client/session_mover.h"

#include <algorithm>

#include "banyan/run/record/log.h"
#include "banyan/run/system/thread.h"
#include "banyan/run/system/watch.h"

namespace banyan::service {
namespace {

using Clock = std::chrono::steady_clock;

// Waits until the deadline.
class OpeningWatch : public run::Watch {
 public:
  explicit OpeningWatch(const run::Deadline& deadline) : deadline_(deadline) {}
  void waiting_for(uint32_t rank) override {
    if (!deadline_.has_passed()) return;
    throw Error(ErrorCode::timed_out,
                "rank " + std::to_string(rank) + " has not come to its next session within " + deadline_.text());
  }

 private:
  const run::Deadline& deadline_;
};

// Of which no rank sees the end before all have begun it.
bool meets_all(const run::CallShape& shape) {
  using run::OperationKind;
  const bool is_of_all = shape.kind == OperationKind::all_reduce || shape.kind == OperationKind::all_gather ||
                         shape.kind == OperationKind::reduce_scatter || shape.kind == OperationKind::all_to_all;
  return shape.kind == OperationKind::barrier || (is_of_all && shape.count > 0);
}

}  // namespace

void SessionMover::stop() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stop_.request_stop();
    opening_.request_stop();
    wakes_.notify_all();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
  // Their ends may wait for hooks, which come here.
  std::vector<std::shared_ptr<run::Executor>> ended;
  std::optional<Opened> opened;
  const std::lock_guard lock(mutex_);
  ended.swap(to_end_);
  opened.swap(opened_);
}

// ---- What is to be done ----

void SessionMover::open(Opening opening, std::vector<run::CallShape> shapes) {
  const std::lock_guard lock(mutex_);
  to_open_ = {std::move(opening), std::move(shapes)};
  opening_ = std::stop_source();
  if (stop_.stop_requested()) opening_.request_stop();
  expect_thread();
}

std::optional<SessionMover::Opened> SessionMover::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(opened_, std::nullopt);
}

void SessionMover::give_up() {
  const std::lock_guard lock(mutex_);
  opening_.request_stop();
}

void SessionMover::end(std::shared_ptr<run::Executor> executor) {
  const std::lock_guard lock(mutex_);
  to_end_.push_back(std::move(executor));
  expect_thread();
}

void SessionMover::wish_from(uint32_t generation) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (wish_ && *wish_ >= generation) return;
    wish_ = generation;
    tries_ = 0;
    wish_at_ = Clock::now();
    pause_ = options_.first_pause;
    expect_thread();
  } catch (...) {
    BANYAN_LOG(warning) << "a communicator does not go over to the newer daemon: " << current_error().what();
  }
}

// ---- The thread ----

// Under the mutex. A thread that is not running has done all but return.
void SessionMover::expect_thread() {
  if (stop_.stop_requested()) return;
  if (is_running_) return wakes_.notify_all();
  if (thread_.joinable()) thread_.join();
  thread_ = run::start_thread("banyan-mover", [this] { run(); });
  is_running_ = true;
}

void SessionMover::run() noexcept {
  Lock lock(mutex_);
  while (!stop_.stop_requested() && work(lock)) continue;
  is_running_ = false;
}

// False when there is nothing more to do.
bool SessionMover::work(Lock& lock) {
  if (!to_end_.empty()) {
    std::vector<std::shared_ptr<run::Executor>> ended;
    ended.swap(to_end_);
    lock.unlock();
    ended.clear();
    lock.lock();
    return true;
  }
  if (to_open_) {
    const auto [opening, shapes] = *std::exchange(to_open_, std::nullopt);
    open_now(opening, shapes, lock);
    return true;
  }
  return wish_ && wish_now(lock);
}

void SessionMover::open_now(const Opening& opening, const std::vector<run::CallShape>& shapes, Lock& lock) {
  const run::Deadline deadline = run::Deadline::after(options_.opening_time).unless(opening_.get_token());
  lock.unlock();
  Opened opened{.generation = opening.generation, .executor = nullptr, .refusal = {}};
  try {
    std::shared_ptr<run::Executor> executor = options_.open(opening, deadline);
    warm_up(*executor, shapes, deadline);
    opened.executor = std::move(executor);
  } catch (...) {
    opened.refusal = deadline.is_stopped() ? "another rank does not come" : current_error().message();
    if (opened.refusal.empty()) opened.refusal = "its next session cannot be opened";
    std::replace(opened.refusal.begin(), opened.refusal.end(), '\n', ' ');
  }
  std::optional<Opened> stale(std::move(opened));
  lock.lock();
  opened_.swap(stale);
  lock.unlock();
  stale.reset();
  options_.opened();
  lock.lock();
}

// All ranks the same calls. A barrier only where none of these is one in effect: rules may deny a kind that the program
// never calls.
void SessionMover::warm_up(run::Executor& executor, const std::vector<run::CallShape>& shapes,
                           const run::Deadline& deadline) const {
  OpeningWatch watch(deadline);
  const auto make = [&](const run::Call& call) {
    executor.start(call, numbers_of(call));
    executor.finish(watch);
  };
  bool have_met = false;
  for (const run::CallShape& shape : shapes) {
    // Without the code, if any: a daemon carries float32 as it is.
    run::Call call{.kind = shape.kind, .type = shape.type.element(), .other = shape.root, .count = shape.count};
    if (has_counts(call.kind) || is_message(call.kind) || call.count > kMostWarmBytes) continue;
    const uint64_t sent = call.send_elements(options_.rank, options_.size) * size_of(call.type);
    const uint64_t received = call.recv_elements(options_.rank, options_.size) * size_of(call.type);
    // What a rank alone sends or gets, others do not see.
    if (call.count * options_.size * size_of(call.type) > kMostWarmBytes) continue;
    std::vector<std::byte> send(sent), recv(received);
    call.send = send.data();
    call.recv = recv.data();
    make(call);
    have_met = have_met || meets_all(shape);
  }
  if (!have_met) make({.kind = run::OperationKind::barrier});
}

bool SessionMover::wish_now(Lock& lock) {
  if (Clock::now() < wish_at_) {
    wakes_.wait_until(lock, wish_at_);
    return true;
  }
  const uint32_t generation = *wish_, tries = ++tries_;
  wish_at_ = Clock::now() + pause_;
  pause_ = std::min(pause_ * 2, options_.longest_pause);
  lock.unlock();
  const run::Deadline deadline = run::Deadline::after(options_.opening_time).unless(stop_.get_token());
  const bool goes_on = !is_found(deadline) || options_.wish(generation, tries);
  lock.lock();
  if (!goes_on && wish_ == generation) wish_.reset();
  return true;
}

bool SessionMover::is_found(const run::Deadline& deadline) const noexcept {
  try {
    if (options_.find) options_.find(deadline);
    return true;
  } catch (...) {
    BANYAN_LOG(info) << "the newer daemon is not there: " << current_error().what();
    return false;
  }
}

// ---- The next session ----

std::optional<std::string> NextSession::prepare(const SessionMover::Opening& opening,
                                                const std::vector<run::CallShape>& shapes) {
  std::optional<SessionMover::Opened> opened = mover_.take();
  if (generation_ != opening.generation) mover_.open(opening, shapes);
  generation_ = opening.generation;
  if (!opened) return std::nullopt;
  if (opened->generation != opening.generation) {
    end(std::move(opened));
    return std::nullopt;
  }
  std::string refusal = std::move(opened->refusal);
  if (opened->executor) ready_ = std::move(opened);
  return refusal;
}

void NextSession::refuse(uint32_t generation) {
  mover_.give_up();
  end(mover_.take());
  generation_ = generation;
}

void NextSession::end_late() { end(mover_.take()); }

std::optional<uint32_t> NextSession::settle(uint32_t under_way) {
  if (ready_ && ready_->generation != under_way) end(take());
  if (ready_ || !generation_ || *generation_ == under_way) return std::nullopt;
  return std::exchange(generation_, std::nullopt);
}

void NextSession::end(std::optional<SessionMover::Opened> opened) {
  if (opened && opened->executor) mover_.end(std::move(opened->executor));
}

}  // namespace banyan::service
