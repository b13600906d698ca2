#include "banyan/run/communicator/driver.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {
Driver::Driver(Executor& executor, Owner& owner, const TimeSource& time, Patience& patience, Progress progress)
    : executor_(executor),
      owner_(owner),
      time_(time),
      patience_(patience),
      progress_(progress),
      threads_(progress, *this, [this] { return owner_.keep(); }) {}

// ---- Starting ----

void Driver::run(const Call& call) {
  if (is_message(call.kind) || pending() > 0 || !lock_.try_take()) return run_in_turn(call);
  std::optional<ResidualUse> residual;
  try {
    expect_going_on();
    residual.emplace(call);
  } catch (...) {
    let_go();
    throw;
  }
  bool has_begun = false;
  try {
    ++started_;
    owner_.begin(call);
    has_begun = true;
    executor_.finish(*this);
    --started_;
    owner_.end_oldest(OperationState::done);
    residual->succeed();
  } catch (...) {
    residual->end();
    fail_run(call, current_error(), has_begun);
  }
  let_go();
  if (pending_.load(std::memory_order_relaxed) != 0) wake();
}

// A peer may come to this call only when it has a message that another thread has started since.
void Driver::waiting_for(uint32_t rank) {
  if (pending() > 0) {
    take_started();
    executor_.advance_messages(messages_done_);
    finish_messages();
    record_waits();
  }
  owner_.waiting_for(rank);
}

void Driver::run_in_turn(const Call& call) { wait(*start({&call, 1}).front()); }

// The caller has found the communicator whole, and has waited for its turn since then. Meanwhile another call may have
// failed, whose remains the executor still has.
void Driver::expect_going_on() const {
  if (is_over_) throw Error(owner_.error());
}

// Ends a blocking call that has failed, and throws its error. One that was refused before it began has failed alone.
void Driver::fail_run(const Call& call, const Error& error, bool has_begun) {
  if (!has_begun && error.code() == ErrorCode::invalid_input) {
    end_under_way(OperationState::failed);
    let_go();
    throw Error(error);
  }
  fail_all(error);
  const Error own = owner_.error_of(call);
  let_go();
  throw Error(own);
}

std::vector<std::shared_ptr<Operation>> Driver::start(std::span<const Call> calls) {
  const std::shared_ptr<Driver> self(owner_.keep(), this);
  std::vector<std::shared_ptr<Operation>> operations;
  operations.reserve(calls.size());
  for (const Call& call : calls) operations.push_back(std::make_shared<Operation>(call, self));
  if (progress_ != Progress::by_nobody) threads_.expect_one();
  // From here on nothing throws: whoever has got an error may free the buffers of the calls.
  {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Operation>& operation : operations) queue_.push_back(operation);
    for (const Call& call : calls) pending_messages_.fetch_add(is_message(call.kind) ? 1 : 0);
    begun_.fetch_add(operations.size());
    pending_.fetch_add(operations.size());
  }
  if (progress_ == Progress::soon) {
    constexpr uint64_t kSmallBytes = 64 << 10;
    const bool are_small = std::ranges::all_of(calls, [](const Call& call) {
      return call.send_counts.empty() && call.recv_counts.empty() && call.count * size_of(call.type) <= kSmallBytes;
    });
    if (are_small) begin_soon();
  }
  wake();
  return operations;
}

// Shows the peers what was just started, or does all of it where they have shown theirs. Calls nobody back: who starts
// something does not expect it.
void Driver::begin_soon() {
  if (!try_take()) return;
  guard([&] { step(); });
  const bool has_called_back = has_callbacks();
  lock_.give_back();
  if (!has_called_back) return;
  threads_.ask_for_attention();
  threads_.wake();
}

// ---- Moving; all of this by the thread that drives ----

// False when nothing could be moved. After a failure nothing is begun: what has been started since then ends with it.
bool Driver::step() {
  if (is_over_) return drop_all();
  take_started();
  bool moved = executor_.advance_messages(messages_done_);
  finish_messages();
  if (calls_.empty()) return moved;
  const uint64_t steps = executor_.steps();
  while (started_ < std::min({calls_.size(), executor_.depth(), kMostUnderWay})) {
    owner_.begin(calls_.at(started_++).call());
  }
  if (executor_.advance()) {
    --started_;
    owner_.end_oldest(OperationState::done);
    complete(calls_.pop_front());
    return true;
  }
  return moved || executor_.steps() != steps;
}

// Messages go to the executor at once, calls when it is their turn. One that fails to begin is among those that end.
void Driver::take_started() {
  const std::lock_guard lock(mutex_);
  while (!queue_.empty()) {
    Operation& operation = *queue_.front();
    if (!is_message(operation.call().kind)) {
      calls_.push_back(queue_.pop_front());
      continue;
    }
    operation.ticket = executor_.start_message(operation.call());
    operation.place = owner_.begin_message(operation.call());
    if (messages_.empty() && started_ == 0) owner_.restart_watch();
    messages_.push_back(queue_.pop_front());
  }
}

void Driver::finish_messages() {
  for (const Executor::MessageDone& done : messages_done_) {
    std::shared_ptr<Operation> operation =
        messages_.take([&](const Operation& message) { return message.ticket == done.ticket; });
    CHECK(operation != nullptr) << "message " << done.ticket << " was never started";
    operation->peer = done.peer;
    owner_.end_message(operation->call(), operation->place, done.peer, OperationState::done);
    complete(std::move(operation));
  }
  messages_done_.clear();
}

void Driver::complete(std::shared_ptr<Operation> operation) noexcept {
  if (is_message(operation->call().kind)) pending_messages_.fetch_sub(1);
  pending_.fetch_sub(1);
  if (operation->finish(std::nullopt)) called_back_.push_back(std::move(operation));
  lock_.announce();
}

// Ends driving. Only then those who wait for a call back get it, since they may make calls.
void Driver::let_go() {
  if (called_back_.empty()) return lock_.give_back();
  call_back();
}

void Driver::call_back() {
  OperationList over;
  over.append(called_back_);
  lock_.give_back();
  while (!over.empty()) over.pop_front()->call_back();
}

// One round of waiting, when step() moved nothing.
void Driver::rest(BackOff& back_off) {
  const bool is_awake = back_off.pause();
  owner_.waiting_for(executor_.waiting_for());
  if (is_awake) return;
  record_waits();
  executor_.sleep([&] { return step(); });
  owner_.woke();
  back_off.slept();
}

// Of messages; calls say so themselves.
void Driver::record_waits() {
  messages_.for_each([&](const Operation& message) {
    if (message.is_wanted.load(std::memory_order_relaxed) || wants_all_.load(std::memory_order_relaxed))
      owner_.record_wait(message.place);
  });
}

// Returns early when somebody is to be called back. Ends all operations when one fails.
template <typename IsEnough>
void Driver::drive_until(IsEnough is_enough, BackOff back_off) {
  guard([&] {
    while (!is_enough() && called_back_.empty()) {
      if (step()) {
        back_off.end();
      } else if (!is_enough()) {
        rest(back_off);
      }
    }
  });
}

std::chrono::milliseconds Driver::message_timeout(std::chrono::milliseconds usual) const {
  std::optional<std::chrono::milliseconds> shortest;
  messages_.for_each([&](const Operation& message) {
    const std::chrono::milliseconds given = message.call().timeout;
    const std::chrono::milliseconds timeout = given.count() > 0 ? given : usual;
    shortest = shortest ? std::min(*shortest, timeout) : timeout;
  });
  return shortest.value_or(usual);
}

// ---- Failing ----

// Whatever is thrown ends all operations, and leaves the lock to be given back.
template <typename Body>
void Driver::guard(Body body) noexcept {
  try {
    body();
  } catch (...) {
    fail_all(current_error());
  }
}

// The search for the cause must not hide the error.
Error Driver::cause_of(const Error& error) noexcept {
  try {
    return owner_.cause_of(error);
  } catch (...) {
    return error;
  }
}

void Driver::fail_all(const Error& error) noexcept {
  const Error cause = cause_of(error);
  is_over_ = true;
  end_under_way(OperationState::failed);
  owner_.fail(cause);
  drop_all();
}

void Driver::end_under_way(OperationState state) noexcept {
  for (; started_ > 0; --started_) owner_.end_oldest(state);
}

// After a failure. Whether there was something.
bool Driver::drop_all() noexcept {
  {
    const std::lock_guard lock(mutex_);
    calls_.append(queue_);
  }
  end_under_way(OperationState::failed);
  messages_.for_each([&](const Operation& message) {
    owner_.end_message(message.call(), message.place, message.call().other, OperationState::failed);
  });
  calls_.append(messages_);
  messages_done_.clear();
  pending_messages_.store(0);
  pending_.fetch_sub(calls_.size());
  const bool has_any = !calls_.empty();
  if (has_any) has_failed_.store(true, std::memory_order_release);
  while (!calls_.empty()) {
    std::shared_ptr<Operation> operation = calls_.pop_front();
    if (operation->finish(owner_.error_of(operation->call()))) called_back_.push_back(std::move(operation));
  }
  if (has_any) lock_.announce();
  return has_any;
}

bool Driver::has_calls() {
  const std::lock_guard lock(mutex_);
  return !calls_.empty() ||
         queue_.contains([](const Operation& operation) { return !is_message(operation.call().kind); });
}

// ---- Waiting ----

// Drives until it is enough, or sleeps while somebody else does; until `end` at most.
template <typename IsEnough>
void Driver::drive_or_wait(IsEnough is_enough, std::optional<TimePoint> end) {
  // A wake-up may have been used by a driver that was no longer asleep.
  constexpr std::chrono::milliseconds kLooksAgain{10};
  const auto left = [&] {
    return end ? std::min(kLooksAgain, std::chrono::ceil<std::chrono::milliseconds>(*end - time_.now())) : kLooksAgain;
  };
  const auto is_over = [&] { return is_enough() || left().count() <= 0; };
  {
    const DriveLock::Waiter waiter(lock_);
    while (!is_over()) {
      if (lock_.try_take()) {
        drive_until(is_over, executor_.back_off());
        let_go();
      } else {
        executor_.wake();
        lock_.sleep(is_over, left());
      }
    }
  }
  if (pending() > 0) wake();
}

// No longer than the timeout without a move.
template <typename IsEnough>
void Driver::wait_until(IsEnough is_enough) {
  const Patience::Waiter waiter(patience_);
  drive_or_wait(is_enough);
}

void Driver::wait(Operation& operation) {
  operation.is_wanted.store(true, std::memory_order_relaxed);
  if (!operation.is_over()) wait_until([&] { return operation.is_over(); });
  if (operation.error()) throw Error(*operation.error());
}

bool Driver::poke(Operation& operation) {
  if (operation.is_over()) return true;
  operation.is_wanted.store(true, std::memory_order_relaxed);
  patience_.asked();
  if (lock_.try_take()) {
    guard([&] {
      while (!operation.is_over() && step()) continue;
      if (operation.is_over()) return;
      owner_.waiting_for(executor_.waiting_for());
      owner_.record_wait(operation.place);
    });
    let_go();
  }
  return operation.is_over();
}

bool Driver::test(Operation& operation) {
  if (!poke(operation)) return false;
  if (operation.error()) throw Error(*operation.error());
  return true;
}

bool Driver::wait_for(Operation& operation, std::chrono::milliseconds at_most) {
  operation.is_wanted.store(true, std::memory_order_relaxed);
  if (!operation.is_over()) {
    drive_or_wait([&] { return operation.is_over(); }, time_.now() + at_most);
  }
  if (!operation.is_over()) {
    patience_.asked();
    return false;
  }
  if (operation.error()) throw Error(*operation.error());
  return true;
}

size_t Driver::wait_for_any(std::span<Operation* const> operations) {
  const auto first_over = [&] {
    return std::ranges::find_if(
        operations, [](const Operation* operation) { return operation == nullptr || operation->is_over(); });
  };
  if (first_over() == operations.end()) {
    for (Operation* const operation : operations) operation->is_wanted.store(true, std::memory_order_relaxed);
    wait_until([&] { return first_over() != operations.end(); });
  }
  return static_cast<size_t>(first_over() - operations.begin());
}

void Driver::wait_for_all() {
  wants_all_.store(true, std::memory_order_relaxed);
  wait_until([&] { return pending_.load() == 0; });
  wants_all_.store(false, std::memory_order_relaxed);
  if (has_failed()) throw Error(owner_.error());
}

void Driver::wait_for_calls(std::chrono::milliseconds at_most) {
  drive_or_wait([&] { return pending_.load() <= pending_messages_.load(); }, time_.now() + at_most);
}

// Once whoever drives has given the lock back, which it does soon after the communicator has failed.
void Driver::take() noexcept {
  const DriveLock::Waiter waiter(lock_);
  while (!lock_.try_take()) {
    executor_.wake();
    lock_.sleep([] { return false; }, std::chrono::milliseconds(10));
  }
}

// ---- The progress threads ----

void Driver::drive(bool is_attended, const std::atomic<bool>& stops) {
  PlanReviser* const reviser = executor_.reviser();
  if (is_attended && reviser != nullptr) guard([&] { reviser->poll(); });
  const BackOff back_off = executor_.back_off();
  const auto has_nothing = [&] {
    return pending_.load() == 0 && (is_over_ || reviser == nullptr || !reviser->is_unsettled());
  };
  drive_until([&] { return has_nothing() || lock_.has_waiters() || stops.load(std::memory_order_acquire); },
              progress_ == Progress::soon ? back_off.modest() : back_off);
}

void Driver::wake() noexcept {
  executor_.wake();
  if (progress_ != Progress::by_nobody) threads_.wake();
}

void Driver::poll_reviser() noexcept {
  threads_.ask_for_attention();
  if (progress_ != Progress::by_nobody) threads_.wake();
}

void Driver::stop_threads() {
  threads_.stop([&] { executor_.wake(); });
}

}  // namespace banyan::run
