// Driver: moves the operations of a communicator: in the caller's thread, in any thread that waits, or in a progress
// thread.
//
// Calls for all ranks go on in the order of their start, as many at a time as the executor can have; messages between
// two ranks go on beside them. A blocking call that finds nothing under way is carried out by its own thread at once,
// which sees to what others start meanwhile.
//
// The first error ends everything that is under way; later operations end with the same error. Whatever is thrown while
// a thread drives, the lock is given back, and waiting threads are told.
//
// It knows an Executor and its Owner only, so that a test can drive it with false ones, in one process. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/communicator/drive_lock.h"
#include "banyan/run/communicator/operation.h"
#include "banyan/run/communicator/patience.h"
#include "banyan/run/communicator/progress_threads.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/system/back_off.h"
#include "banyan/run/system/time_source.h"

namespace banyan::run {

class Driver : private ProgressThreads::Work, private Watch {
 public:
  using TimePoint = TimeSource::TimePoint;
  static constexpr size_t kMostUnderWay = 8;  // calls at a time, even of an executor that could have more

  // A communicator's actions around its operations. All but keep() are called by the thread that drives.
  class Owner : public Watch {
   public:
    // Gives the call to the executor, after those that are there.
    virtual void begin(const Call& call) = 0;
    // The call that was begun first is no more under way.
    virtual void end_oldest(OperationState state) = 0;
    // A message between two ranks is under way. Returns the place by which the other two functions know it.
    virtual MessageBook::Place begin_message(const Call& message) = 0;
    // A thread waits for it in vain.
    virtual void record_wait(MessageBook::Place message) = 0;
    // It is over. `peer`: where it went, or came from.
    virtual void end_message(const Call& message, MessageBook::Place place, uint32_t peer, OperationState state) = 0;
    // A new wait begins now.
    virtual void restart_watch() = 0;
    // The error to fail with: what is known elsewhere of the cause of this one.
    virtual Error cause_of(const Error& error) = 0;
    // The communicator fails with this error, unless it has failed before.
    virtual void fail(const Error& error) noexcept = 0;
    // The first error; there is one after fail().
    virtual const Error& error() const = 0;
    // The same for an operation that ends with it, which it may name.
    virtual Error error_of(const Call& call) noexcept = 0;
    // Keeps the owner, and so the driver, alive.
    virtual std::shared_ptr<void> keep() = 0;
  };

  // All outlive it. Waiting threads are counted by `patience`.
  Driver(Executor& executor, Owner& owner, const TimeSource& time, Patience& patience, Progress progress);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Makes the call and blocks until it is done. Throws its error.
  void run(const Call& call);
  std::vector<std::shared_ptr<Operation>> start(std::span<const Call> calls);
  // Moves what can be moved now; true when the operation is over.
  bool poke(Operation& operation);
  // The same. Throws its error.
  bool test(Operation& operation);
  // Waits until it is over. Throws its error.
  void wait(Operation& operation);
  bool wait_for(Operation& operation, std::chrono::milliseconds at_most);
  // Waits until one of them is over, and returns which. All are of this driver; nulls are over.
  size_t wait_for_any(std::span<Operation* const> operations);
  // Waits until nothing is under way. Throws the error of an operation that has ended with one, now or before.
  void wait_for_all();
  // Waits until no call for all ranks is under way, or for so long.
  void wait_for_calls(std::chrono::milliseconds at_most);
  // Has a progress thread see to what is under way at once.
  void progress_at_once() { threads_.look_at_once(); }
  // Something has changed that the driver should look at, or a progress thread where nobody drives.
  void wake() noexcept;
  // The executor has heard something from another rank, while this one may be in no call.
  void poll_reviser() noexcept;

  bool is_busy() const { return lock_.is_taken() || pending_.load(std::memory_order_acquire) > 0; }
  // True if an operation has ended with an error.
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // The shortest timeout of the messages under way, `usual` for those that name none. Called by the thread that drives.
  std::chrono::milliseconds message_timeout(std::chrono::milliseconds usual) const;

  // Ends the progress threads.
  void stop_threads();
  // The same in a forked process, which has none.
  void forget_threads() { threads_.forget(); }
  // Once nobody else drives: has `fail` note an error, and ends all operations with it. `has_calls`: calls for all
  // ranks are among them.
  template <typename Fail>
  void end_all(Fail fail) noexcept;

 private:
  // ProgressThreads::Work
  size_t pending() const override { return pending_.load(std::memory_order_acquire); }
  uint64_t over() const override { return begun_.load(std::memory_order_acquire) - pending(); }
  bool try_take() override { return !lock_.has_waiters() && lock_.try_take(); }
  void drive(bool is_attended, const std::atomic<bool>& stops) override;
  bool has_callbacks() const override { return !called_back_.empty(); }
  void let_go() override;

  // Watch, of a blocking call: messages of other threads go on beside it.
  void waiting_for(uint32_t rank) override;
  void woke() override { owner_.woke(); }

  void run_in_turn(const Call& call);
  void expect_going_on() const;
  [[noreturn]] void fail_run(const Call& call, const Error& error, bool has_begun);
  template <typename Body>
  void guard(Body body) noexcept;
  template <typename IsEnough>
  void drive_until(IsEnough is_enough, BackOff back_off);
  template <typename IsEnough>
  void drive_or_wait(IsEnough is_enough, std::optional<TimePoint> end = {});
  template <typename IsEnough>
  void wait_until(IsEnough is_enough);
  void take() noexcept;
  bool step();
  void take_started();
  void finish_messages();
  void rest(BackOff& back_off);
  void record_waits();
  void call_back();
  void complete(std::shared_ptr<Operation> operation) noexcept;
  void end_under_way(OperationState state) noexcept;
  Error cause_of(const Error& error) noexcept;
  void fail_all(const Error& error) noexcept;
  bool drop_all() noexcept;
  bool has_calls();
  void begin_soon();

  Executor& executor_;
  Owner& owner_;
  const TimeSource& time_;
  Patience& patience_;
  const Progress progress_;
  DriveLock lock_;
  ProgressThreads threads_;

  std::atomic<size_t> pending_{0};           // operations that were started and are not over
  std::atomic<size_t> pending_messages_{0};  // those between two
  std::atomic<uint64_t> begun_{0};           // operations in all
  std::atomic<bool> has_failed_{false};      // one of them
  std::atomic<bool> wants_all_{false};       // somebody waits until nothing is under way
  std::mutex mutex_;                         // protects queue_
  OperationList queue_;                      // started, and not taken by who drives

  // Used only by the thread that drives.
  OperationList calls_;     // for all ranks, in order; the first `started_` are under way
  size_t started_ = 0;      // calls that the executor has: of calls_, or the one of run()
  OperationList messages_;  // between two
  std::vector<Executor::MessageDone> messages_done_;
  OperationList called_back_;  // over, and to be called back when nobody drives
  bool is_over_ = false;       // all has failed: the executor is of no use any more
};

template <typename Fail>
void Driver::end_all(Fail fail) noexcept {
  take();
  is_over_ = true;
  fail(has_calls());
  drop_all();
  let_go();
}

}  // namespace banyan::run
