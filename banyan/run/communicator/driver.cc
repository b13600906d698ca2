// How the calls of a communicator go on: in the caller's thread, in that of who waits, or in the progress thread.
#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/communicator/core.h"

namespace banyan::run {
namespace {

// What no rank could do, whatever the others call.
void expect_possible(const Call& call, uint32_t rank, uint32_t size) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_input, std::string(to_string(call.kind)) + ": " + what);
  };
  const bool is_from_any = call.kind == OperationKind::recv && call.other == kAnyRank;
  if ((is_rooted(call.kind) || is_message(call.kind)) && call.other >= size && !is_from_any) {
    refuse("rank " + std::to_string(call.other) + " does not exist; there are " + std::to_string(size));
  }
  if (reduces(call.kind)) expect_reducible(call.type, call.op);
  // So that no sum of counts, nor their bytes, can overflow.
  const auto expect_in_memory = [&](uint64_t elements, const char* what) {
    const bool is_small = elements >> 28 == 0;  // spares a division
    if (!is_small && elements > UINT64_MAX / 16 / size) refuse(what + std::to_string(elements) + " is beyond memory");
  };
  const auto expect_counts = [&](std::span<const size_t> counts, std::span<const size_t> displacements) {
    if (counts.size() != size) refuse("one count per rank is needed, " + std::to_string(size) + " in all");
    if (!displacements.empty() && displacements.size() != size) refuse("one displacement per rank is needed");
    for (const size_t count : counts) expect_in_memory(count, "a count of ");
    for (const size_t displacement : displacements) expect_in_memory(displacement, "a displacement of ");
  };
  if (call.kind == OperationKind::all_gather_v || call.kind == OperationKind::all_to_all_v) {
    expect_counts(call.recv_counts, call.recv_displacements);
  }
  if (call.kind == OperationKind::reduce_scatter_v || call.kind == OperationKind::all_to_all_v) {
    expect_counts(call.send_counts, call.send_displacements);
  }
  expect_in_memory(call.count, "a count of ");
  if (call.send == nullptr && call.send_elements(rank, size) > 0) refuse("the send buffer is missing");
  if (call.recv == nullptr && call.recv_elements(rank, size) > 0) refuse("the receive buffer is missing");
}

}  // namespace

// ---- Driving ----

void Communicator::Impl::run(const Call& call) {
  expect_usable();
  expect_possible(call, rank_, static_cast<uint32_t>(members_.size()));
  if (!is_message(call.kind) && pending_.load(std::memory_order_acquire) == 0 &&
      !busy_.exchange(true, std::memory_order_acquire)) {
    try {
      begin(call);
      executor_->finish(*this);
      end_oldest(OperationState::done);
    } catch (const Error& error) {
      const Error cause = cause_of(error);
      while (started_ > 0) end_oldest(OperationState::failed);
      if (cause.code() != ErrorCode::invalid_input) fail(cause);
      let_go();
      throw cause;
    }
    let_go();
    if (pending_.load(std::memory_order_relaxed) != 0) wake_driver();
    return;
  }
  wait(*start({&call, 1}).front());
}

std::vector<std::shared_ptr<Operation>> Communicator::Impl::start(std::span<const Call> calls) {
  expect_usable();
  for (const Call& call : calls) expect_possible(call, rank_, static_cast<uint32_t>(members_.size()));
  std::vector<std::shared_ptr<Operation>> operations;
  for (const Call& call : calls) operations.push_back(std::make_shared<Operation>(call, shared_from_this()));
  {
    const std::lock_guard lock(mutex_);
    queue_.insert(queue_.end(), operations.begin(), operations.end());
    for (const Call& call : calls)
      pending_messages_.fetch_add(is_message(call.kind) ? 1 : 0, std::memory_order_relaxed);
    pending_.fetch_add(operations.size(), std::memory_order_release);
    begun_ += operations.size();
  }
  if (options_.progress == Progress::soon) {
    constexpr uint64_t kSmallBytes = 64 << 10;
    const bool are_small = std::all_of(calls.begin(), calls.end(), [](const Call& call) {
      return call.send_counts.empty() && call.recv_counts.empty() && call.count * size_of(call.type) <= kSmallBytes;
    });
    if (are_small) begin_soon();
  }
  wake_driver();
  return operations;
}

// Shows the peers what was just started, or does all of it where they have shown theirs. Calls nobody back: who starts
// something does not expect it.
void Communicator::Impl::begin_soon() {
  if (wishes_.load(std::memory_order_acquire) > 0 || busy_.exchange(true, std::memory_order_acquire)) return;
  try {
    step();
  } catch (const Error& error) {
    end_all(cause_of(error));
  }
  const bool has_called_back = !called_back_.empty();
  busy_.store(false, std::memory_order_release);
  if (!has_called_back) return;
  attention_.store(true, std::memory_order_release);
  wake_thread();
}

// Moves what can be moved; false when nothing could. Only for who drives. Ends everything when something fails.
bool Communicator::Impl::step() {
  {
    const std::lock_guard lock(mutex_);
    for (std::shared_ptr<Operation>& operation : queue_) {
      if (is_message(operation->call().kind)) {
        operation->ticket = executor_->start_message(operation->call());
        steps_seen_ = UINT64_MAX;
        messages_.push_back(std::move(operation));
      } else {
        calls_.push_back(std::move(operation));
      }
    }
    queue_.clear();
  }
  bool moved = executor_->advance_messages(messages_done_);
  for (const Executor::MessageDone& done : messages_done_) {
    const auto found = std::find_if(messages_.begin(), messages_.end(),
                                    [&](const auto& operation) { return operation->ticket == done.ticket; });
    CHECK(found != messages_.end()) << "message " << done.ticket << " was never started";
    const std::shared_ptr<Operation> operation = *found;
    messages_.erase(found);
    operation->peer = done.peer;
    complete(operation);
  }
  messages_done_.clear();
  if (calls_.empty()) return moved;
  const uint64_t steps = executor_->steps();
  const size_t most = std::min(executor_->depth(), kMostUnderWay);
  while (started_ < std::min(calls_.size(), most)) begin(calls_[started_]->call());
  if (executor_->advance()) {
    end_oldest(OperationState::done);
    complete(calls_.front());
    calls_.pop_front();
    return true;
  }
  return moved || executor_->steps() != steps;
}

void Communicator::Impl::complete(const std::shared_ptr<Operation>& operation) {
  if (is_message(operation->call().kind)) pending_messages_.fetch_sub(1, std::memory_order_release);
  pending_.fetch_sub(1, std::memory_order_release);
  if (operation->finish(std::nullopt)) called_back_.push_back(operation);
}

// Ends driving. Only then those who wait for a call back get it, since they may make calls.
void Communicator::Impl::let_go() {
  if (called_back_.empty()) {
    busy_.store(false, std::memory_order_release);
    return;
  }
  const std::vector<std::shared_ptr<Operation>> over = std::exchange(called_back_, {});
  busy_.store(false, std::memory_order_release);
  for (const std::shared_ptr<Operation>& operation : over) operation->call_back();
}

// One round of waiting, when step() moved nothing.
void Communicator::Impl::rest(Patience& patience) {
  const bool is_awake = patience.pause();
  waiting_for(executor_->waiting_for());
  if (is_awake) return;
  executor_->sleep([&] { return step(); });
  patience.tire();
}

// Only for who drives; returns early when somebody is to be called back. Ends all operations when one fails.
template <typename IsEnough>
void Communicator::Impl::drive_until(IsEnough is_enough, Patience patience) {
  steps_seen_ = UINT64_MAX;
  try {
    while (!is_enough() && called_back_.empty()) {
      if (step()) {
        patience.end();
      } else if (!is_enough()) {
        rest(patience);
      }
    }
  } catch (const Error& error) {
    end_all(cause_of(error));
  }
}

// With this error, or that which came before it. Only for who drives.
void Communicator::Impl::end_all(const Error& error) {
  while (started_ > 0) end_oldest(OperationState::failed);
  fail(error);
  drop_all();
}

// After a failure has been noted.
void Communicator::Impl::drop_all() {
  {
    const std::lock_guard lock(mutex_);
    calls_.insert(calls_.end(), queue_.begin(), queue_.end());
    queue_.clear();
  }
  calls_.insert(calls_.end(), messages_.begin(), messages_.end());
  messages_.clear();
  pending_messages_.store(0, std::memory_order_release);
  pending_.fetch_sub(calls_.size(), std::memory_order_release);
  for (const std::shared_ptr<Operation>& operation : calls_) {
    if (operation->finish(error_)) called_back_.push_back(operation);
  }
  calls_.clear();
}

// Drives until it is enough, or waits while somebody else does.
template <typename IsEnough>
void Communicator::Impl::drive_or_wait(IsEnough is_enough, Operation* operation) {
  constexpr std::chrono::milliseconds kWhile{1};
  wishes_.fetch_add(1, std::memory_order_seq_cst);
  while (!is_enough()) {
    if (!busy_.exchange(true, std::memory_order_acquire)) {
      drive_until(is_enough, executor_->patience());
      let_go();
    } else {
      executor_->wake();
      if (operation != nullptr) {
        operation->wait(kWhile);
      } else {
        std::this_thread::sleep_for(kWhile / 4);
      }
    }
  }
  wishes_.fetch_sub(1, std::memory_order_release);
  if (pending_.load(std::memory_order_acquire) > 0) wake_driver();
}

void Communicator::Impl::wait(Operation& operation) {
  if (!operation.is_over()) {
    hasty_.fetch_add(1, std::memory_order_relaxed);
    drive_or_wait([&] { return operation.is_over(); }, &operation);
    hasty_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (operation.error()) throw *operation.error();
}

// Moves what can be moved now; true when the operation is over.
bool Communicator::Impl::poke(Operation& operation) {
  if (!operation.is_over() && !busy_.exchange(true, std::memory_order_acquire)) {
    try {
      while (!operation.is_over() && step()) continue;
      if (!operation.is_over()) waiting_for(executor_->waiting_for());
    } catch (const Error& error) {
      end_all(cause_of(error));
    }
    let_go();
  }
  return operation.is_over();
}

bool Communicator::Impl::wait_for(Operation& operation, std::chrono::milliseconds at_most) {
  const Clock::time_point end = Clock::now() + at_most;
  if (!operation.is_over()) {
    drive_or_wait([&] { return operation.is_over() || Clock::now() >= end; }, &operation);
  }
  if (!operation.is_over()) return false;
  if (operation.error()) throw *operation.error();
  return true;
}

bool Communicator::Impl::test(Operation& operation) {
  if (!poke(operation)) return false;
  if (operation.error()) throw *operation.error();
  return true;
}

void Communicator::Impl::finalize() {
  expect_usable();
  drive_or_wait([&] { return pending_.load(std::memory_order_acquire) == 0; }, nullptr);
}

void Communicator::Impl::drain(std::chrono::milliseconds at_most) {
  const Clock::time_point end = Clock::now() + at_most;
  drive_or_wait(
      [&] {
        return pending_.load(std::memory_order_acquire) <= pending_messages_.load(std::memory_order_acquire) ||
               Clock::now() >= end;
      },
      nullptr);
}

// ---- The progress thread ----

// Others may wait for what the executor has to say, while this rank is in no call.
void Communicator::Impl::attend() {
  try {
    if (PlanReviser* const reviser = executor_->reviser()) reviser->attend();
  } catch (const Error& error) {
    end_all(cause_of(error));
  }
}

// There is something to drive: whoever naps, or nobody, should know.
void Communicator::Impl::wake_driver() {
  executor_->wake();
  if (options_.progress != Progress::by_nobody) wake_thread();
}

void Communicator::Impl::wake_thread() {
  const std::lock_guard lock(mutex_);
  if (threads_.empty() && !thread_stops_)
    threads_.emplace_back([self = shared_from_this()] { self->be_progress_thread(); });
  const bool looks_soon = options_.progress == Progress::soon && does_thread_look_ && !hastened_ && !attention_;
  if (!looks_soon) thread_wakes_.notify_one();
}

void Communicator::Impl::hasten() {
  if (options_.progress != Progress::soon || pending_.load(std::memory_order_acquire) == 0) return;
  hastened_.store(true, std::memory_order_release);
  wake_thread();
}

// Whether what is under way was so when a thread looked last, and nobody has waited for it since. Under mutex_.
bool Communicator::Impl::is_left_alone() {
  if (options_.progress == Progress::at_once || hastened_.load(std::memory_order_acquire)) return true;
  const uint64_t over = begun_ - pending_.load(std::memory_order_acquire);
  const bool is_left_alone = std::exchange(seen_over_, over) == over;
  // A look takes the core from whoever works, so where there is nothing to see there are few.
  look_after_ = is_left_alone ? kShortestLook : std::min(look_after_ * 2, kLongestLook);
  return is_left_alone;
}

void Communicator::Impl::be_progress_thread() {
  constexpr std::chrono::microseconds kAside{200};
  constexpr uint32_t kLooks = 20;  // in vain, before it sleeps until it is woken
  uint32_t looks = 0;
  std::unique_lock lock(mutex_);
  const auto sleep = [&] {
    ++threads_asleep_;
    thread_wakes_.wait(lock);
    --threads_asleep_;
    looks = 0;
    seen_over_ = UINT64_MAX;
  };
  const auto look_again_in = [&](std::chrono::microseconds time) {
    if (does_thread_look_ || does_thread_drive_) return sleep();
    does_thread_look_ = true;
    thread_wakes_.wait_for(lock, time);
    does_thread_look_ = false;
  };
  while (!thread_stops_) {
    if (!attention_.load(std::memory_order_acquire)) {
      if (pending_.load(std::memory_order_acquire) == 0) {
        hastened_.store(false, std::memory_order_release);
        options_.progress == Progress::soon && ++looks <= kLooks ? look_again_in(look_after_) : sleep();
        continue;
      }
      looks = 0;
      if (!is_left_alone()) {
        look_again_in(look_after_);
        continue;
      }
    }
    // Who waits for an operation drives it with less delay than a thread that must be woken.
    if (wishes_.load(std::memory_order_acquire) > 0 || busy_.exchange(true, std::memory_order_acquire)) {
      look_again_in(options_.progress == Progress::soon ? look_after_ : kAside);
      continue;
    }
    does_thread_drive_ = true;
    lock.unlock();
    if (attention_.exchange(false, std::memory_order_acq_rel)) attend();
    const Patience patience = executor_->patience();
    drive_until(
        [&] {
          return pending_.load(std::memory_order_acquire) == 0 || wishes_.load(std::memory_order_acquire) > 0 ||
                 thread_stops_.load(std::memory_order_acquire);
        },
        options_.progress == Progress::soon ? patience.modest() : patience);
    lock.lock();
    does_thread_drive_ = false;
    if (!called_back_.empty()) make_understudy();
    lock.unlock();
    let_go();
    lock.lock();
  }
}

// Before this thread calls somebody back: who shall make progress meanwhile? Under mutex_.
void Communicator::Impl::make_understudy() {
  if (threads_asleep_ == 0 && !does_thread_look_ && threads_.size() < kMostThreads && !thread_stops_) {
    threads_.emplace_back([self = shared_from_this()] { self->be_progress_thread(); });
  }
  if (pending_.load(std::memory_order_acquire) > 0) thread_wakes_.notify_one();
}

}  // namespace banyan::run
