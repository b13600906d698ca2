#include "banyan/run/communicator.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <sstream>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/host_executor.h"
#include "banyan/run/join/environment.h"
#include "banyan/run/join/rendezvous.h"
#include "banyan/run/net_executor.h"
#include "banyan/run/operation.h"
#include "banyan/run/record/dump.h"
#include "banyan/run/record/log.h"
#include "banyan/run/record/recorder.h"
#include "banyan/run/stall.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/run/system/patience.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

// Never zero in practice, nor the same for two pairs.
uint64_t mix(uint64_t a, uint64_t b) {
  a = (a + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ (b + 1) * 0x94d049bb133111ebu;
  return (a ^ a >> 31) * 0xd6e8feb86659fd93u;
}

// Progress as a text that travels between agents.
std::string encode(const RankProgress& progress) {
  std::string text = std::to_string(progress.begun);
  for (const uint64_t number : progress.last_call) text += " " + std::to_string(number);
  return text;
}

RankProgress decode(const std::string& text) {
  RankProgress progress;
  std::istringstream stream(text);
  stream >> progress.begun;
  for (uint64_t& number : progress.last_call) stream >> number;
  return stream ? progress : RankProgress();
}

// What no rank could do, whatever the others call.
void expect_possible(const Call& call, uint32_t rank, uint32_t size) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_input, std::string(to_string(call.kind)) + ": " + what);
  };
  if ((call.is_rooted() || call.is_between_two()) && call.other >= size) {
    refuse("rank " + std::to_string(call.other) + " does not exist; there are " + std::to_string(size));
  }
  if (call.is_between_two() && call.other == rank) refuse("a rank cannot send to itself; copy instead");
  const auto expect_counts = [&](std::span<const size_t> counts, std::span<const size_t> displacements) {
    if (counts.size() != size) refuse("one count per rank is needed, " + std::to_string(size) + " in all");
    if (!displacements.empty() && displacements.size() != size) refuse("one displacement per rank is needed");
  };
  if (call.kind == OperationKind::all_gather_v || call.kind == OperationKind::all_to_all_v) {
    expect_counts(call.recv_counts, call.recv_displacements);
  }
  if (call.kind == OperationKind::reduce_scatter_v || call.kind == OperationKind::all_to_all_v) {
    expect_counts(call.send_counts, call.send_displacements);
  }
  if (call.count > UINT64_MAX / 16 / size) refuse("a count of " + std::to_string(call.count) + " is beyond memory");
  if (call.send == nullptr && call.send_elements(rank, size) > 0) refuse("the send buffer is missing");
  if (call.recv == nullptr && call.recv_elements(rank, size) > 0) refuse("the receive buffer is missing");
}

}  // namespace

// Whoever holds `busy_` *drives*: moves what is under way. That is the caller of a blocking call, or of wait(), or the
// progress thread, which gives way to the others.
class Communicator::Impl : public Watch, public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<Job> job, uint64_t id, std::vector<uint32_t> members, Options options);
  ~Impl() override;

  void run(const Call& call);
  std::vector<std::shared_ptr<Operation>> start(std::span<const Call> calls);
  bool poke(Operation& operation);
  bool test(Operation& operation);
  void wait(Operation& operation);

  void finalize();
  void abort(const std::string& why);
  void close();
  void fail(const Error& error);
  std::optional<Error> error() const;
  Communicator shrink(std::span<const uint32_t> excluded, std::chrono::milliseconds patience, Options options);
  uint64_t next_id(uint64_t salt) { return mix(mix(id_, ++children_), salt); }

  const std::shared_ptr<Job> job_;
  const uint64_t id_;
  const std::vector<uint32_t> members_;
  const Options options_;
  uint32_t rank_ = 0;

 private:
  std::unique_ptr<Executor> make_net_executor();
  void tell_of_failure(const Error& error);
  void hear_of_failure(const std::string& reason);
  bool note_failure(const Error& error);
  Error cause_of(const Error& error);
  std::vector<RankProgress> ask_peers();
  void expect_usable() const;
  void waiting_for(uint32_t rank) override;
  void expect_nobody_dead() const;
  void expect_present(uint32_t rank) const;
  [[noreturn]] void give_up(uint32_t waited_for);

  bool step();
  void rest(Patience& patience);
  void complete(const std::shared_ptr<Operation>& operation);
  void end_all();
  template <typename IsEnough>
  void drive_until(IsEnough is_enough);
  template <typename IsEnough>
  void drive_or_wait(IsEnough is_enough, Operation* operation);
  void be_progress_thread();
  void wake_driver();

  void begin_record(const Call& call);
  void write_dump(DumpReason reason, const std::string& why);

  const ForkGuard fork_guard_;
  // In memory that outlives a killed process as long as a peer has it mapped.
  std::byte* const recorder_memory_;
  Recorder recorder_;
  Recorder::Entry entry_;  // of the call under way
  std::unique_ptr<Executor> executor_;
  HookRegistration hooks_;

  std::atomic<bool> busy_{false};                 // somebody drives
  std::atomic<uint32_t> wishes_{0};               // threads that want to
  std::atomic<size_t> pending_{0};                // operations that were started and are not over
  std::mutex mutex_;                              // protects queue_, and error_ while it is set
  std::deque<std::shared_ptr<Operation>> queue_;  // started, and not taken by who drives

  // Of who drives.
  std::deque<std::shared_ptr<Operation>> calls_;      // for all ranks: one at a time, in order
  std::vector<std::shared_ptr<Operation>> messages_;  // between two
  bool is_call_started_ = false;
  CallNumbers current_{};
  uint64_t children_ = 0, shrinks_ = 0;

  // Of the Watch.
  uint64_t steps_seen_ = UINT64_MAX;  // then the time begins with the next question
  uint32_t changes_seen_ = 0, changes_noticed_ = 0;
  uint64_t steps_noticed_ = 0;
  uint32_t rank_noticed_ = 0;
  Clock::time_point moved_at_;
  Agent::Expectation expectation_;
  bool expects_ = false;

  std::atomic<bool> failed_{false};
  std::optional<Error> error_;

  std::thread thread_;
  std::condition_variable thread_wakes_;
  std::atomic<bool> thread_stops_{false};
};

Communicator::Impl::Impl(std::shared_ptr<Job> job, uint64_t id, std::vector<uint32_t> members, Options options)
    : job_(std::move(job)),
      id_(id),
      members_(std::move(members)),
      options_(std::move(options)),
      recorder_memory_(job_->pool().allocate(Recorder::kMemoryBytes)),
      recorder_({recorder_memory_, Recorder::kMemoryBytes}) {
  const auto own = std::find(members_.begin(), members_.end(), job_->rank());
  CHECK(own != members_.end()) << "process " << job_->rank() << " is no member";
  rank_ = static_cast<uint32_t>(own - members_.begin());
  const bool all_here =
      std::all_of(members_.begin(), members_.end(), [&](uint32_t member) { return job_->is_here(member); });
  if (options_.transports == Transports::tcp || (options_.transports == Transports::automatic && !all_here)) {
    executor_ = make_net_executor();
  } else if (all_here) {
    executor_ = std::make_unique<HostExecutor>(job_->meet_on_host(id_, members_, Clock::now() + options_.join_timeout),
                                               job_->pool());
  } else {
    throw Error(ErrorCode::unsupported, "the ranks of '" + options_.name +
                                            "' are on several hosts, which shared memory does not join; use tcp");
  }
  BANYAN_LOG(info) << "communicator '" << options_.name << "': rank " << rank_ << " of " << members_.size() << ", "
                   << (all_here && options_.transports != Transports::tcp ? "shared memory" : "TCP");
  hooks_ = job_->agent().attach(id_, {.state = [this] { return encode(executor_->own_progress()); },
                                      .dump = [this](const std::string& reason) { hear_of_failure(reason); },
                                      .liveness_changed = [this] { executor_->wake(); }});
  changes_seen_ = 0;
}

std::unique_ptr<Executor> Communicator::Impl::make_net_executor() {
  if (!options_.plans) {
    throw Error(ErrorCode::unsupported, "there is no planner for ranks on several hosts: set Options::plans");
  }
  std::vector<std::string> hosts;
  std::vector<uint32_t> host_of_rank;
  for (const uint32_t member : members_) {
    const std::string& host = job_->process(member).member.host_id;
    const auto found = std::find(hosts.begin(), hosts.end(), host);
    host_of_rank.push_back(static_cast<uint32_t>(found - hosts.begin()));
    if (found == hosts.end()) hosts.push_back(host);
  }
  const auto here = static_cast<uint32_t>(std::count(host_of_rank.begin(), host_of_rank.end(), host_of_rank[rank_]));
  return std::make_unique<NetExecutor>(
      job_->agent().connector(id_, members_, rank_, std::min(options_.timeout, options_.join_timeout)),
      NetExecutor::Options{.rank = rank_,
                           .ranks = static_cast<uint32_t>(members_.size()),
                           .is_crowded = is_crowded(here),
                           .plans = options_.plans(host_of_rank),
                           .tell_peers = [this](const Error& error) { tell_of_failure(error); },
                           .ask_peers = [this] { return ask_peers(); }});
}

// ---- News of other ranks ----

// A failure goes round as "<code> <text>".
void Communicator::Impl::tell_of_failure(const Error& error) {
  job_->agent().request_dump(id_, std::to_string(static_cast<int>(error.code())) + " " + error.what());
}

void Communicator::Impl::hear_of_failure(const std::string& reason) {
  int code = 0;
  const auto [end, failure] = std::from_chars(reason.data(), reason.data() + reason.size(), code);
  if (failure != std::errc() || code < 0 || code > static_cast<int>(ErrorCode::invalid_usage)) return;
  const auto skipped = static_cast<size_t>(end - reason.data());
  const Error error(static_cast<ErrorCode>(code), reason.substr(std::min(skipped + 1, reason.size())));
  if (!note_failure(error)) return;
  executor_->wake();
  if (error.code() == ErrorCode::timed_out) write_dump(DumpReason::asked, error.what());
}

std::vector<RankProgress> Communicator::Impl::ask_peers() {
  constexpr std::chrono::milliseconds kPatience{1000};
  const std::vector<PeerReport> reports = job_->agent().ask_states(id_, Clock::now() + kPatience);
  std::vector<RankProgress> progress;
  for (const uint32_t member : members_) {
    const PeerReport& report = reports.at(member);
    progress.push_back(report.kind == PeerReport::Kind::answered ? decode(report.text) : RankProgress());
  }
  return progress;
}

Communicator::Impl::~Impl() {
  hooks_ = {};  // they use what goes now
  job_->pool().free(recorder_memory_);
}

void Communicator::Impl::abort(const std::string& why) {
  fail(Error(ErrorCode::aborted, "rank " + std::to_string(rank_) + " aborted: " + why));
  wake_driver();
}

// Requests may outlive the communicator, and find their operations ended.
void Communicator::Impl::close() {
  if (fork_guard_.is_in_child()) {
    // The thread and the peers belong to the parent.
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    thread_stops_.store(true, std::memory_order_release);
  }
  thread_wakes_.notify_all();
  executor_->wake();
  if (thread_.joinable()) thread_.join();
  hooks_ = {};
  while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  if (pending_.load(std::memory_order_acquire) > 0) {
    fail(Error(ErrorCode::aborted, "rank " + std::to_string(rank_) + " destroyed the communicator"));
    end_all();
  }
  busy_.store(false, std::memory_order_release);
}

// ---- Errors ----

void Communicator::Impl::expect_usable() const {
  if (fork_guard_.is_in_child()) {
    throw Error(ErrorCode::invalid_usage, "a communicator cannot be used after fork(); join anew in the child process");
  }
  if (failed_.load(std::memory_order_acquire)) throw *error_;
}

std::optional<Error> Communicator::Impl::error() const {
  if (failed_.load(std::memory_order_acquire)) return error_;
  return executor_->broken();
}

// The first error stays. False when there was one.
bool Communicator::Impl::note_failure(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return false;
  error_ = error;
  failed_.store(true, std::memory_order_release);
  return true;
}

void Communicator::Impl::fail(const Error& error) {
  if (!note_failure(error)) return;
  BANYAN_LOG(info) << "communicator '" << options_.name << "' has failed: " << error.what();
  entry_.finish(OperationState::failed);
  executor_->break_with(error);
  if (error.code() == ErrorCode::timed_out) {
    // Those who are late are in no call in which they could notice.
    tell_of_failure(error);
    write_dump(DumpReason::timeout, error.what());
  }
}

// ---- The flight recorder ----

void Communicator::Impl::begin_record(const Call& call) {
  steps_seen_ = UINT64_MAX;
  entry_ = recorder_.begin({.kind = call.kind,
                            .type = call.type,
                            .op = call.op,
                            .other = call.is_rooted() ? call.other : kNoRank,
                            .count = call.count,
                            .counts_hash = current_[2]});
}

// What cannot be written is lost: it must not hide the error that it is about.
void Communicator::Impl::write_dump(DumpReason reason, const std::string& why) {
  try {
    RankDump dump = begin_dump({recorder_memory_, Recorder::kMemoryBytes});
    dump.communicator = options_.name;
    dump.id = id_ == 1 ? "" : std::to_string(id_);
    dump.rank = rank_;
    dump.size = static_cast<uint32_t>(members_.size());
    dump.reason = reason;
    dump.message = why;
    for (uint32_t rank = 0; rank < dump.size; ++rank) {
      if (rank == rank_) continue;
      const PeerState state = job_->agent().liveness().state(members_[rank]);
      dump.peers.push_back({.rank = rank,
                            .health = state == PeerState::alive    ? RankHealth::alive
                                      : state == PeerState::silent ? RankHealth::silent
                                      : state == PeerState::left   ? RankHealth::left
                                                                   : RankHealth::dead,
                            .sequence = 0});
    }
    const std::string path = banyan::write_dump(dump, recorder_directory());
    BANYAN_LOG(info) << "flight recorder written to " << path;
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "the flight recorder could not be written: " << error.what();
  }
}

// The error of an operation, once whatever is known of it elsewhere has been waited for: who loses a connection learns
// only afterwards that the process at the other end died, or why it gave up.
Error Communicator::Impl::cause_of(const Error& error) {
  constexpr std::chrono::milliseconds kNewsTime{400}, kPause{2};
  if (error.code() != ErrorCode::peer_lost) return error;
  const Clock::time_point end = Clock::now() + kNewsTime;
  while (!failed_.load(std::memory_order_acquire) && Clock::now() < end) {
    try {
      expect_nobody_dead();
    } catch (const Error& death) {
      return death;
    }
    std::this_thread::sleep_for(kPause);
  }
  return failed_.load(std::memory_order_acquire) ? *error_ : error;
}

void Communicator::Impl::waiting_for(uint32_t rank) {
  if (failed_.load(std::memory_order_acquire)) throw *error_;
  const uint64_t steps = executor_->steps();
  const uint32_t changes = job_->agent().liveness().changes().load(std::memory_order_acquire);
  // Who is gone may have done its part before. All it did can be seen once its going is; so look at it once more.
  if (changes == changes_noticed_ && steps == steps_noticed_ && rank == rank_noticed_) {
    if (changes != changes_seen_) expect_nobody_dead();
    changes_seen_ = changes;
    expect_present(rank);
  }
  changes_noticed_ = changes;
  steps_noticed_ = steps;
  rank_noticed_ = rank;
  const Clock::time_point now = Clock::now();
  if (steps == steps_seen_) entry_.wait_for(rank);
  if (steps != steps_seen_) {
    steps_seen_ = steps;
    moved_at_ = now;
    return;
  }
  if (now - moved_at_ > options_.timeout) give_up(rank);
  if (!expects_ && now - moved_at_ > options_.timeout / 4) {
    expectation_ = job_->agent().expect();
    expects_ = true;
  }
}

void Communicator::Impl::expect_nobody_dead() const {
  const Liveness& liveness = job_->agent().liveness();
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (liveness.state(members_[rank]) != PeerState::dead) continue;
    throw Error(ErrorCode::peer_lost, "rank " + std::to_string(rank) + " is dead: " + liveness.why(members_[rank]));
  }
}

void Communicator::Impl::expect_present(uint32_t rank) const {
  if (job_->agent().liveness().state(members_[rank]) != PeerState::left) return;
  throw Error(ErrorCode::peer_lost, "rank " + std::to_string(rank) +
                                        " has left: it ended its part before this rank's " +
                                        describe(record_of(current_, executor_->own_progress().begun)));
}

void Communicator::Impl::give_up(uint32_t waited_for) {
  std::vector<StalledRank> ranks;
  const std::vector<RankProgress> progress = executor_->progress();
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    ranks.push_back(
        {.progress = progress[rank], .is_silent = job_->agent().liveness().state(members_[rank]) == PeerState::silent});
  }
  throw Error(ErrorCode::timed_out,
              "nothing has moved for " + std::to_string(options_.timeout.count()) +
                  " ms: " + explain({.own = rank_, .waited_for = waited_for, .call = current_, .ranks = ranks}) +
                  "; see 'banyan doctor " + recorder_directory() + "'");
}

// ---- Driving ----

void Communicator::Impl::run(const Call& call) {
  expect_usable();
  expect_possible(call, rank_, static_cast<uint32_t>(members_.size()));
  if (!call.is_between_two() && pending_.load(std::memory_order_acquire) == 0 &&
      !busy_.exchange(true, std::memory_order_acquire)) {
    try {
      current_ = numbers_of(call);
      begin_record(call);
      executor_->start(call, current_);
      executor_->finish(*this);
      entry_.finish();
    } catch (const Error& error) {
      const Error cause = cause_of(error);
      if (cause.code() != ErrorCode::invalid_input) fail(cause);
      busy_.store(false, std::memory_order_release);
      throw cause;
    }
    busy_.store(false, std::memory_order_release);
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
    pending_.fetch_add(operations.size(), std::memory_order_release);
  }
  wake_driver();
  return operations;
}

// Moves what can be moved; false when nothing could. Only for who drives. Ends everything when something fails.
bool Communicator::Impl::step() {
  {
    const std::lock_guard lock(mutex_);
    for (std::shared_ptr<Operation>& operation : queue_) {
      if (operation->call().is_between_two()) {
        operation->ticket = executor_->start_message(operation->call());
        steps_seen_ = UINT64_MAX;
        messages_.push_back(std::move(operation));
      } else {
        calls_.push_back(std::move(operation));
      }
    }
    queue_.clear();
  }
  bool moved = executor_->advance_messages();
  if (moved) {
    std::erase_if(messages_, [&](const std::shared_ptr<Operation>& operation) {
      if (!executor_->is_message_done(operation->ticket)) return false;
      complete(operation);
      return true;
    });
  }
  if (calls_.empty()) return moved;
  const uint64_t steps = executor_->steps();
  if (!is_call_started_) {
    current_ = numbers_of(calls_.front()->call());
    begin_record(calls_.front()->call());
    executor_->start(calls_.front()->call(), current_);
    is_call_started_ = true;
  }
  if (executor_->advance()) {
    is_call_started_ = false;
    entry_.finish();
    complete(calls_.front());
    calls_.pop_front();
    return true;
  }
  return moved || executor_->steps() != steps;
}

void Communicator::Impl::complete(const std::shared_ptr<Operation>& operation) {
  pending_.fetch_sub(1, std::memory_order_release);
  operation->finish(std::nullopt);
}

// One round of waiting, when step() moved nothing.
void Communicator::Impl::rest(Patience& patience) {
  const bool is_awake = patience.pause();
  waiting_for(executor_->waiting_for());
  if (is_awake) return;
  executor_->nap([&] { return step(); });
  patience.tire();
}

// Only for who drives. Ends all operations when one fails.
template <typename IsEnough>
void Communicator::Impl::drive_until(IsEnough is_enough) {
  Patience patience(executor_->is_crowded());
  steps_seen_ = UINT64_MAX;
  try {
    while (!is_enough()) {
      if (step()) {
        patience.end();
      } else if (!is_enough()) {
        rest(patience);
      }
    }
  } catch (const Error& error) {
    fail(cause_of(error));
    end_all();
  }
}

void Communicator::Impl::end_all() {
  {
    const std::lock_guard lock(mutex_);
    calls_.insert(calls_.end(), queue_.begin(), queue_.end());
    queue_.clear();
  }
  calls_.insert(calls_.end(), messages_.begin(), messages_.end());
  messages_.clear();
  pending_.fetch_sub(calls_.size(), std::memory_order_release);
  for (const std::shared_ptr<Operation>& operation : calls_) operation->finish(error_);
  calls_.clear();
  is_call_started_ = false;
}

// Drives until it is enough, or waits while somebody else does.
template <typename IsEnough>
void Communicator::Impl::drive_or_wait(IsEnough is_enough, Operation* operation) {
  constexpr std::chrono::milliseconds kWhile{1};
  wishes_.fetch_add(1, std::memory_order_seq_cst);
  while (!is_enough()) {
    if (!busy_.exchange(true, std::memory_order_acquire)) {
      drive_until(is_enough);
      busy_.store(false, std::memory_order_release);
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
  if (!operation.is_over()) drive_or_wait([&] { return operation.is_over(); }, &operation);
  if (operation.error()) throw *operation.error();
}

// Moves what can be moved now; true when the operation is over.
bool Communicator::Impl::poke(Operation& operation) {
  if (!operation.is_over() && !busy_.exchange(true, std::memory_order_acquire)) {
    try {
      while (!operation.is_over() && step()) continue;
      if (!operation.is_over()) waiting_for(executor_->waiting_for());
    } catch (const Error& error) {
      fail(cause_of(error));
      end_all();
    }
    busy_.store(false, std::memory_order_release);
  }
  return operation.is_over();
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

// ---- The progress thread ----

// There is something to drive: whoever naps, or nobody, should know.
void Communicator::Impl::wake_driver() {
  executor_->wake();
  if (!options_.progress_thread) return;
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable() && !thread_stops_) thread_ = std::thread([this] { be_progress_thread(); });
  thread_wakes_.notify_one();
}

void Communicator::Impl::be_progress_thread() {
  constexpr std::chrono::microseconds kAside{200};
  std::unique_lock lock(mutex_);
  while (!thread_stops_) {
    if (pending_.load(std::memory_order_acquire) == 0) {
      thread_wakes_.wait(lock);
      continue;
    }
    // Who waits for an operation drives it with less delay than a thread that must be woken.
    if (wishes_.load(std::memory_order_acquire) > 0 || busy_.exchange(true, std::memory_order_acquire)) {
      thread_wakes_.wait_for(lock, kAside);
      continue;
    }
    lock.unlock();
    drive_until([&] {
      return pending_.load(std::memory_order_acquire) == 0 || wishes_.load(std::memory_order_acquire) > 0 ||
             thread_stops_.load(std::memory_order_acquire);
    });
    busy_.store(false, std::memory_order_release);
    lock.lock();
  }
}

// ---- New groups ----

Communicator Communicator::Impl::shrink(std::span<const uint32_t> excluded, std::chrono::milliseconds patience,
                                        Options options) {
  fail(
      Error(ErrorCode::aborted, "rank " + std::to_string(rank_) + " shrinks the communicator '" + options_.name + "'"));
  wishes_.fetch_add(1, std::memory_order_seq_cst);
  while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  end_all();
  busy_.store(false, std::memory_order_release);
  wishes_.fetch_sub(1, std::memory_order_release);

  SurvivorQuestion question;
  question.epoch = mix(id_, 0x5312 + ++shrinks_);
  question.candidates = members_;
  question.patience = patience;
  std::sort(question.candidates.begin(), question.candidates.end());
  for (const uint32_t rank : excluded) {
    if (rank >= members_.size()) {
      throw Error(ErrorCode::invalid_input, "rank " + std::to_string(rank) + " cannot be excluded: there are only " +
                                                std::to_string(members_.size()));
    }
    question.excluded.push_back(members_[rank]);
  }
  question.deadline = Clock::now() + 2 * patience + std::chrono::seconds(10);
  const Survivors survivors = job_->agent().agree(question);
  uint64_t id = question.epoch;
  std::vector<uint32_t> members;
  for (const uint32_t member : members_) {
    if (!std::binary_search(survivors.ranks.begin(), survivors.ranks.end(), member)) continue;
    members.push_back(member);
    id = mix(id, member);
  }
  return {job_, id, std::move(members), std::move(options)};
}

// ---- The interface ----

Communicator::Communicator(std::shared_ptr<Job> job, uint64_t id, std::vector<uint32_t> members, Options options)
    : impl_(std::make_shared<Impl>(std::move(job), id, std::move(members), std::move(options))) {}

Communicator Communicator::join(RegionPool& pool, const Job::Invitation& invitation, Options options) {
  std::shared_ptr<Job> job = Job::join(pool, invitation, Secret::from_environment(), options.join_timeout);
  std::vector<uint32_t> members(invitation.size);
  std::iota(members.begin(), members.end(), 0u);
  return {std::move(job), 1, std::move(members), std::move(options)};
}

Communicator Communicator::join(RegionPool& pool, Options options) {
  // Several meetings of the same processes at one place are told apart by their number.
  static std::atomic<uint64_t> meetings{0};
  if (const std::optional<Invitation> invitation = invitation_from(Surroundings::real())) {
    return join(pool,
                {.url = invitation->url,
                 .rank = invitation->rank,
                 .size = invitation->size,
                 .name = invitation->job + "#" + std::to_string(meetings.fetch_add(1))},
                std::move(options));
  }
  const UniqueId alone = make_unique_id();
  return join(pool, {.url = alone.text, .rank = 0, .size = 1, .name = {}}, std::move(options));
}

Communicator::Communicator(Communicator&&) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Communicator::~Communicator() {
  if (impl_ != nullptr) impl_->close();
}

uint32_t Communicator::rank() const { return impl_->rank_; }
uint32_t Communicator::size() const { return static_cast<uint32_t>(impl_->members_.size()); }
const std::string& Communicator::name() const { return impl_->options_.name; }
const Job& Communicator::job() const { return *impl_->job_; }

void Communicator::run(const Call& call) { impl_->run(call); }

Request Communicator::start(const Call& call) { return Request(std::move(impl_->start({&call, 1}).front())); }

std::vector<Request> Communicator::start_group(std::span<const Call> calls) {
  std::vector<Request> requests;
  for (std::shared_ptr<Operation>& operation : impl_->start(calls)) requests.push_back(Request(std::move(operation)));
  return requests;
}

std::optional<Communicator> Communicator::split(int color, int key, Options options) {
  struct Wish {
    int32_t color = 0, key = 0;
  };
  const Wish own{color, key};
  std::vector<Wish> wishes(size());
  run({.kind = OperationKind::all_gather,
       .type = DataType::int32,
       .send = reinterpret_cast<const std::byte*>(&own),
       .recv = reinterpret_cast<std::byte*>(wishes.data()),
       .count = 2});
  const uint64_t id = impl_->next_id(static_cast<uint64_t>(color));
  if (color < 0) return std::nullopt;
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    if (wishes[rank].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](uint32_t a, uint32_t b) { return wishes[a].key < wishes[b].key; });
  std::vector<uint32_t> members;
  for (const uint32_t rank : ranks) members.push_back(impl_->members_[rank]);
  return Communicator(impl_->job_, id, std::move(members), std::move(options));
}

Communicator Communicator::shrink(std::span<const uint32_t> excluded, std::chrono::milliseconds patience,
                                  Options options) {
  return impl_->shrink(excluded, patience, std::move(options));
}

void Communicator::finalize() { impl_->finalize(); }

void Communicator::abort(const std::string& why) { impl_->abort(why); }

std::optional<Error> Communicator::error() const { return impl_->error(); }

bool Request::test() {
  if (operation_ != nullptr && !operation_->owner().test(*operation_)) return false;
  operation_.reset();
  return true;
}

void Request::wait() {
  if (operation_ == nullptr) return;
  const std::shared_ptr<Operation> operation = std::exchange(operation_, nullptr);
  operation->owner().wait(*operation);
}

size_t Request::wait_for_any(std::span<const Request> requests) {
  CHECK(!requests.empty());
  Patience patience(true);
  for (;;) {
    for (size_t i = 0; i < requests.size(); ++i) {
      Operation* const operation = requests[i].operation_.get();
      if (operation == nullptr || operation->is_over() || operation->owner().poke(*operation)) return i;
    }
    if (patience.pause()) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    patience.tire();
  }
}

}  // namespace banyan
