// The inside of a Communicator: known to communicator*.cc and operation.* only.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "banyan/base/hash.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/communicator/operation.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/record/dump.h"
#include "banyan/run/record/dump_signal.h"
#include "banyan/run/record/rank_news.h"
#include "banyan/run/record/recorder.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/run/system/patience.h"
#include "banyan/run/system/shared_memory.h"

namespace banyan::run {

// Whoever holds `busy_` *drives*: moves what is under way. That is the caller of a blocking call, or of wait(), or the
// progress thread, which gives way to the others.
class Communicator::Impl : public Watch, public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<JoinedProcesses> job, uint64_t id, std::vector<uint32_t> members, Options options);
  ~Impl() override;

  void run(const Call& call);
  std::vector<std::shared_ptr<Operation>> start(std::span<const Call> calls);
  bool poke(Operation& operation);
  bool test(Operation& operation);
  void wait(Operation& operation);
  bool wait_for(Operation& operation, std::chrono::milliseconds at_most);
  void hasten();

  void finalize();
  void drain(std::chrono::milliseconds at_most);
  void abort(const std::string& why);
  void close();
  void dump(const std::string& why);
  std::optional<Error> error() const;
  uint32_t reroutes() const;
  void revise(const FabricUpdate& update);
  uint32_t generation() const;
  Communicator shrink(std::span<const uint32_t> excluded, std::chrono::milliseconds patience, Options options);
  uint64_t next_id(uint64_t salt) { return mix(mix(id_, ++children_), salt); }

  const std::shared_ptr<JoinedProcesses> job_;
  const uint64_t id_;
  const std::vector<uint32_t> members_;
  const Options options_;
  uint32_t rank_ = 0;
  bool is_on_one_host_ = false;

 private:
  using Clock = std::chrono::steady_clock;

  void tell_of_failure(const Error& error);
  void hear(const std::string& text);
  void hear_of_failure(const std::string& reason);
  void fail(const Error& error);
  void end(const Error& error);
  bool break_with(const Error& error);
  bool note_failure(const Error& error);
  Error cause_of(const Error& error);
  Error cause_of_loss(const Error& error) const;
  RankHealth health_of(uint32_t rank) const;
  struct Answer {
    RankNews news;
    RankHealth health = RankHealth::unknown;
  };
  std::vector<Answer> ask_ranks(std::chrono::milliseconds at_most);
  std::vector<Answer> ask_about_timeout();
  RankNews own_news() const;
  Error explained(const Error& error);
  void expect_usable();
  void waiting_for(uint32_t rank) override;
  void remind(Clock::time_point now, std::chrono::milliseconds timeout, uint32_t rank);
  std::chrono::milliseconds timeout_now() const;
  void expect_nobody_dead() const;
  std::string name_of(uint32_t rank) const { return job_->name_of(members_, rank); }
  std::string legend() const;
  void expect_present(uint32_t rank) const;
  void compare_calls(Clock::time_point now, std::chrono::milliseconds timeout);
  void expect_equal_calls(std::chrono::milliseconds at_most);

  bool step();
  void rest(Patience& patience);
  void complete(const std::shared_ptr<Operation>& operation);
  void end_all(const Error& error);
  void drop_all();
  template <typename IsEnough>
  void drive_until(IsEnough is_enough, Patience patience);
  template <typename IsEnough>
  void drive_or_wait(IsEnough is_enough, Operation* operation);
  void let_go();
  void begin_soon();
  void be_progress_thread();
  void make_understudy();
  bool is_left_alone();
  void attend();
  void wake_driver();
  void wake_thread();

  void begin(const Call& call);
  void end_oldest(OperationState state);
  void write_dump(DumpReason reason, const std::string& why);
  void record_failure(DumpReason reason, const Error& error);
  void dump_when_asked(const std::string& why);

  const ForkGuard fork_guard_;
  // By rank: whether it left this rank's last question without an answer. Written by who drives, read by any.
  std::unique_ptr<std::atomic<bool>[]> is_mute_;
  const SharedMemory recorder_pages_{Recorder::kMemoryBytes};  // which come as they are used
  std::byte* const recorder_memory_;
  Recorder recorder_;
  std::unique_ptr<Executor> executor_;
  HookRegistration hooks_;
  DumpRegistration signal_;

  std::atomic<bool> busy_{false};                 // somebody drives
  std::atomic<uint32_t> wishes_{0};               // threads that want to
  std::atomic<uint32_t> hasty_{0};                // of these, those who wait no longer than the timeout
  std::atomic<size_t> pending_{0};                // operations that were started and are not over
  std::atomic<size_t> pending_messages_{0};       // those between two
  std::mutex mutex_;                              // protects queue_, and error_ while it is set
  std::deque<std::shared_ptr<Operation>> queue_;  // started, and not taken by who drives

  // Of who drives.
  std::deque<std::shared_ptr<Operation>> calls_;      // for all ranks, in order; the first `started_` are under way
  std::vector<std::shared_ptr<Operation>> messages_;  // between two
  std::vector<Executor::MessageDone> messages_done_;
  std::vector<std::shared_ptr<Operation>> called_back_;  // over, and to be called back when nobody drives
  // Those that the executor has, the oldest first: of calls_, or the one of run().
  struct UnderWay {
    CallNumbers numbers{};
    Recorder::Entry entry;
    std::chrono::milliseconds timeout{0};
  };
  static constexpr size_t kMostUnderWay = 8;
  std::array<UnderWay, kMostUnderWay> under_way_;  // a ring
  size_t oldest_ = 0, started_ = 0;
  uint64_t children_ = 0, shrinks_ = 0;

  // Of the Watch.
  uint64_t steps_seen_ = UINT64_MAX;  // then the time begins with the next question
  uint32_t changes_seen_ = 0, changes_noticed_ = 0;
  uint64_t steps_noticed_ = 0;
  uint32_t rank_noticed_ = 0;
  Clock::time_point moved_at_;
  Agent::Expectation expectation_;
  bool expects_ = false;
  std::chrono::milliseconds compare_after_{0};  // of standing still
  std::chrono::milliseconds remind_after_{0};   // of standing still
  bool has_asked_last_ = false;                 // before the timeout
  std::vector<Answer> last_answers_;            // to that question

  // Of the records.
  std::atomic<bool> has_failure_record_{false};  // or needs none, since it was ended by this rank's wish
  std::mutex dump_mutex_;                        // protects the next one, and writing
  Clock::time_point dumped_at_ = Clock::time_point::min();

  std::atomic<bool> failed_{false};
  std::optional<Error> error_;

  std::atomic<bool> attention_{false};  // the executor has heard something, or somebody is to be called back
  // Progress threads, all alike. A second one is made when the first is about to call somebody back, who may wait for
  // what only a thread that makes progress brings about; and so on.
  static constexpr size_t kMostThreads = 8;
  std::vector<std::thread> threads_;  // under mutex_
  size_t threads_asleep_ = 0;         // under mutex_; until they are woken, rather than for a while
  bool does_thread_look_ = false;     // under mutex_; one wakes up again and again
  bool does_thread_drive_ = false;    // under mutex_
  std::condition_variable thread_wakes_;
  std::atomic<bool> thread_stops_{false};
  std::atomic<bool> hastened_{false};  // what is under way should not wait for soon
  // Under mutex_, of Progress::soon.
  uint64_t begun_ = 0;  // operations
  static constexpr std::chrono::microseconds kShortestLook{500}, kLongestLook = kSoon / 2;
  std::chrono::microseconds look_after_ = kLongestLook;
  uint64_t seen_over_ = UINT64_MAX;  // how many of them were over when the thread looked last
};

}  // namespace banyan::run
