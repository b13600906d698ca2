#include "banyan/run/sparse/sparse_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/system/thread.h"

namespace banyan::run {
namespace {

// Of the same ranks, in the same order.
Communicator twin_of(Communicator& communicator) {
  Communicator::Options options = communicator.options();
  options.name = communicator.name() + ".sparse";
  options.joins_by.reset();  // that of the first one is over
  std::optional<Communicator> twin = communicator.split(0, static_cast<int>(communicator.rank()), std::move(options));
  CHECK(twin.has_value());
  return std::move(*twin);
}

}  // namespace

struct SparseQueue::State {
  explicit State(Communicator of_its_own) : communicator(std::move(of_its_own)) {}
  bool is_idle() const { return waiting.empty() && !is_busy; }

  Communicator communicator;
  std::mutex mutex;  // protects the next three
  std::deque<std::function<void()>> waiting;
  bool is_busy = false;  // one is being carried out
  bool is_ending = false;
  std::condition_variable changed;
};

SparseQueue::SparseQueue(Communicator& of)
    : state_(std::make_shared<State>(twin_of(of))),
      thread_(start_thread("banyan sparse", [state = state_] { carry_out_all(*state); })) {}

void SparseQueue::close() {
  if (fork_guard_.is_in_child()) {  // the thread, and what it may have locked, are the parent's
    state_->communicator.close();
    if (thread_.joinable()) thread_.detach();
    return;
  }
  const bool is_in_a_sum = thread_.get_id() == std::this_thread::get_id();
  bool has_sums = false;  // besides that one
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->is_ending, true)) return;
    has_sums = is_in_a_sum ? !state_->waiting.empty() : !state_->is_idle();
  }
  if (has_sums) abort("it ended with sparse sums under way");
  state_->changed.notify_all();
  if (is_in_a_sum) {
    carry_out_all(*state_);
    thread_.detach();
  } else {
    thread_.join();
  }
  state_->communicator.close();
}

Communicator& SparseQueue::communicator() { return state_->communicator; }

void SparseQueue::start(std::function<void()> sum) {
  if (fork_guard_.is_in_child()) {
    throw Error(ErrorCode::invalid_usage, "a communicator cannot be used after fork(); join anew in the child process");
  }
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->is_ending) throw Error(ErrorCode::aborted, "the queue of sparse sums has been closed");
    state_->waiting.push_back(std::move(sum));
  }
  state_->changed.notify_all();
}

void SparseQueue::drain(std::chrono::milliseconds at_most) {
  if (fork_guard_.is_in_child() || thread_.get_id() == std::this_thread::get_id()) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, at_most, [&] { return state_->is_idle(); });
}

// Until it ends; the sum of a moment ago may have ended it.
void SparseQueue::carry_out_all(State& state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock, [&] { return state.is_ending || !state.waiting.empty(); });
    if (state.waiting.empty()) return;
    std::function<void()> sum = std::move(state.waiting.front());
    state.waiting.pop_front();
    state.is_busy = true;
    lock.unlock();
    sum();
    sum = nullptr;  // what it holds goes before anybody is told
    lock.lock();
    state.is_busy = false;
    state.changed.notify_all();
  }
}

}  // namespace banyan::run
