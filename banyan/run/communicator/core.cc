// Beginning and end of a communicator, what it learns of other ranks, and how it fails.
#include "banyan/run/communicator/core.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/rank_list.h"
#include "banyan/base/remake.h"
#include "banyan/run/communicator/default_executors.h"
#include "banyan/run/record/log.h"
#include "banyan/run/record/mismatch.h"

namespace banyan::run {
namespace {

// The words by which texts to all ranks begin.
constexpr const char* kFailure = "failed ";
constexpr const char* kDump = "dump ";
// Who is asked again so soon after it wrote a record has nothing new to tell.
constexpr std::chrono::milliseconds kDumpPause{1000};

// Of standing still, until a warning tells of it; each next one comes after twice the time.
constexpr std::chrono::milliseconds kFirstReminder{10'000};

// Of standing still, until the ranks compare what they called: for the first time, and how much longer for each next.
constexpr std::chrono::milliseconds kFirstComparison{1000};
constexpr int kRarer = 2;

RankHealth health_after(PeerReport::Kind kind) {
  switch (kind) {
    case PeerReport::Kind::answered:
      return RankHealth::alive;
    case PeerReport::Kind::unknown:
      return RankHealth::unknown;
    case PeerReport::Kind::no_answer:
    case PeerReport::Kind::silent:
      return RankHealth::silent;
    case PeerReport::Kind::left:
      return RankHealth::left;
    case PeerReport::Kind::dead:
      return RankHealth::dead;
  }
  return RankHealth::unknown;
}

// Of the calls that the ranks have told of.
template <typename Answers>
std::optional<Mismatch> difference_between(const Answers& answers) {
  std::vector<CallOfRank> calls;
  for (uint32_t rank = 0; rank < answers.size(); ++rank) {
    for (const OperationRecord& call : answers[rank].news.calls) calls.push_back({.rank = rank, .record = &call});
  }
  return find_mismatch(calls);
}

}  // namespace

Communicator::Impl::Impl(std::shared_ptr<JoinedProcesses> job, uint64_t id, std::vector<uint32_t> members,
                         Options options)
    : job_(std::move(job)),
      id_(id),
      members_(std::move(members)),
      options_(std::move(options)),
      is_mute_(std::make_unique<std::atomic<bool>[]>(members_.size())),
      recorder_memory_(recorder_pages_.data()),
      recorder_({recorder_memory_, Recorder::kMemoryBytes}) {
  const auto own = std::find(members_.begin(), members_.end(), job_->rank());
  CHECK(own != members_.end()) << "process " << job_->rank() << " is no member";
  rank_ = static_cast<uint32_t>(own - members_.begin());
  const auto factory = options_.executors ? options_.executors : std::make_shared<DefaultExecutors>(job_, options_);
  ExecutorFactory::Made made =
      factory->make({.id = id_,
                     .name = options_.name,
                     .members = members_,
                     .rank = rank_,
                     .tell_failure = [this](const Error& error) { tell_of_failure(error); },
                     .tell_text = [this](const std::string& text) { job_->agent().tell(id_, text); }});
  executor_ = std::move(made.executor);
  is_on_one_host_ = made.is_on_one_host;
  set_log_rank(job_->rank());
  BANYAN_LOG(info) << "communicator '" << options_.name << "': rank " << rank_ << " of " << members_.size() << ", "
                   << made.means;
  hooks_ = job_->agent().attach(id_, {.state = [this] { return own_news().encode(); },
                                      .told = [this](const std::string& text) { hear(text); },
                                      .liveness_changed = [this] { executor_->wake(); }});
  signal_ = on_dump_signal([this] { dump("a signal asked for it"); });
  changes_seen_ = 0;
}

// ---- News of other ranks ----

// A failure goes round as "failed <code> <text>".
void Communicator::Impl::tell_of_failure(const Error& error) {
  job_->agent().tell(id_, kFailure + std::to_string(static_cast<int>(error.code())) + " " + error.what());
}

void Communicator::Impl::hear(const std::string& text) {
  if (text.starts_with(kFailure)) {
    hear_of_failure(text.substr(std::string_view(kFailure).size()));
  } else if (text.starts_with(kDump)) {
    dump_when_asked(text.substr(std::string_view(kDump).size()));
  } else if (PlanReviser* const reviser = executor_->reviser()) {
    reviser->hear(text);
    attention_.store(true, std::memory_order_release);
    if (options_.progress != Progress::by_nobody && !fork_guard_.is_in_child()) wake_thread();
  }
}

void Communicator::Impl::hear_of_failure(const std::string& reason) {
  int code = 0;
  const auto [end, failure] = std::from_chars(reason.data(), reason.data() + reason.size(), code);
  if (failure != std::errc() || code < 0 || code > static_cast<int>(ErrorCode::invalid_usage)) return;
  const auto skipped = static_cast<size_t>(end - reason.data());
  const Error error(static_cast<ErrorCode>(code), reason.substr(std::min(skipped + 1, reason.size())));
  // A rank that ends the communicator, or shrinks it, fails nothing where nothing is under way.
  const bool is_under_way = busy_.load(std::memory_order_acquire) || pending_.load(std::memory_order_acquire) > 0;
  if (!note_failure(error)) return;
  executor_->wake();
  if (error.code() != ErrorCode::aborted || is_under_way) record_failure(DumpReason::asked, error);
}

// Any thread.
RankNews Communicator::Impl::own_news() const {
  return RankNews::read({recorder_memory_, Recorder::kMemoryBytes}, RecorderClock::system().exact());
}

// By rank; of this one too.
std::vector<Communicator::Impl::Answer> Communicator::Impl::ask_ranks(std::chrono::milliseconds at_most) {
  const std::vector<PeerReport> reports = job_->agent().ask_states(id_, Clock::now() + at_most);
  std::vector<Answer> answers;
  for (const uint32_t member : members_) {
    const PeerReport& report = reports.at(member);
    const bool has_answered = report.kind == PeerReport::Kind::answered;
    is_mute_[answers.size()].store(report.kind == PeerReport::Kind::no_answer, std::memory_order_release);
    answers.push_back(
        {.news = has_answered ? RankNews::decode(report.text) : RankNews(), .health = health_after(report.kind)});
  }
  return answers;
}

Communicator::Impl::~Impl() {
  hooks_ = {};  // they use what goes now
  signal_ = {};
}

void Communicator::Impl::abort(const std::string& why) {
  fail(Error(ErrorCode::aborted, name_of(rank_) + " aborted: " + why));
  wake_driver();
}

// Requests may outlive the communicator, and find their operations ended.
void Communicator::Impl::close() {
  if (fork_guard_.is_in_child()) {
    // The threads and the peers belong to the parent.
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    thread_stops_.store(true, std::memory_order_release);
  }
  thread_wakes_.notify_all();
  executor_->wake();
  for (std::thread& thread : threads_) {  // there are no new ones
    // A call back may drop the last handle of the communicator.
    thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
  }
  threads_.clear();
  hooks_ = {};
  signal_ = {};
  // Who has only looked at the error of another rank, in no call of its own, has written no record of it yet.
  const std::optional<Error> why = executor_->broken();
  if (why && note_failure(*why) && why->code() != ErrorCode::aborted) record_failure(DumpReason::asked, *why);
  while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  const Error closed(ErrorCode::aborted, name_of(rank_) + " closed the communicator");
  const auto is_call = [](const std::shared_ptr<Operation>& operation) { return !is_message(operation->call().kind); };
  bool has_calls = !calls_.empty();
  {
    const std::lock_guard lock(mutex_);
    has_calls = has_calls || std::any_of(queue_.begin(), queue_.end(), is_call);
  }
  if (has_calls) {
    end(closed);
    end_all(closed);
  } else {
    if (note_failure(closed)) has_failure_record_.store(true, std::memory_order_release);
    drop_all();
  }
  let_go();
}

// ---- Errors ----

void Communicator::Impl::expect_usable() {
  if (fork_guard_.is_in_child()) {
    throw Error(ErrorCode::invalid_usage, "a communicator cannot be used after fork(); join anew in the child process");
  }
  if (!failed_.load(std::memory_order_acquire)) return;
  // What another rank has ended before this call fails the call.
  if (!has_failure_record_.load(std::memory_order_acquire)) record_failure(DumpReason::error, *error_);
  throw *error_;
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

uint32_t Communicator::Impl::reroutes() const {
  const PlanReviser* const reviser = executor_->reviser();
  return reviser == nullptr ? 0 : reviser->reroutes();
}

bool Communicator::Impl::break_with(const Error& error) {
  if (!note_failure(error)) return false;
  BANYAN_LOG(info) << "communicator '" << options_.name << "' has failed: " << error.what();
  executor_->break_with(error);
  return true;
}

// By the wish of this rank, which is no failure.
void Communicator::Impl::end(const Error& error) {
  if (break_with(error)) has_failure_record_.store(true, std::memory_order_release);
}

void Communicator::Impl::fail(const Error& error) {
  if (!break_with(error)) return;
  const bool is_timeout = error.code() == ErrorCode::timed_out;
  // Those who are late are in no call in which they could notice.
  if (is_timeout) tell_of_failure(error);
  record_failure(is_timeout ? DumpReason::timeout : DumpReason::error, error);
}

// ---- The flight recorder ----

// Starts it, and remembers that.
void Communicator::Impl::begin(const Call& call) {
  steps_seen_ = UINT64_MAX;
  UnderWay& begun = under_way_[(oldest_ + started_) % kMostUnderWay];
  remake(begun.numbers, [&] { return numbers_of(call); });
  uint64_t count = begun.numbers[1];
  if (call.kind == OperationKind::all_to_all_v) {
    count = std::accumulate(call.send_counts.begin(), call.send_counts.end(), uint64_t{0});
  }
  remake(begun.entry, [&] {
    return recorder_.begin({.kind = call.kind,
                            .type = call.type,
                            .op = call.op,
                            .other = is_rooted(call.kind) ? call.other : kNoRank,
                            .count = count,
                            .counts_hash = begun.numbers[2]});
  });
  begun.timeout = call.timeout.count() > 0 ? call.timeout : options_.timeout;
  ++started_;
  executor_->start(call, begun.numbers);
}

void Communicator::Impl::end_oldest(OperationState state) {
  under_way_[oldest_].entry.finish(state);
  oldest_ = (oldest_ + 1) % kMostUnderWay;
  --started_;
}

// One judgement for the error's words and for the record: who has not answered is as silent as who gives no heartbeat.
RankHealth Communicator::Impl::health_of(uint32_t rank) const {
  switch (job_->agent().liveness().state(members_[rank])) {
    case PeerState::alive:
      return is_mute_[rank].load(std::memory_order_acquire) ? RankHealth::silent : RankHealth::alive;
    case PeerState::silent:
      return RankHealth::silent;
    case PeerState::left:
      return RankHealth::left;
    case PeerState::dead:
      return RankHealth::dead;
  }
  return RankHealth::unknown;
}

// What cannot be written is lost: it must not hide the error that it is about. Any thread.
void Communicator::Impl::write_dump(DumpReason reason, const std::string& why) {
  const std::lock_guard lock(dump_mutex_);
  dumped_at_ = Clock::now();
  try {
    RankDump dump = begin_dump({recorder_memory_, Recorder::kMemoryBytes});
    dump.communicator = options_.name;
    dump.id = id_ == 1 ? "" : std::to_string(id_);
    dump.rank = rank_;
    dump.size = static_cast<uint32_t>(members_.size());
    dump.reason = reason;
    dump.message = why;
    for (uint32_t rank = 0; rank < dump.size; ++rank) {
      if (rank != rank_) dump.peers.push_back({.rank = rank, .health = health_of(rank), .sequence = 0});
    }
    const std::string path = banyan::run::write_dump(dump, recorder_directory());
    BANYAN_LOG(info) << "flight recorder written to " << path;
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "the flight recorder could not be written: " << error.what();
  }
}

// The record of the failure stays: nothing happens after it.
void Communicator::Impl::record_failure(DumpReason reason, const Error& error) {
  has_failure_record_.store(true, std::memory_order_release);
  write_dump(reason, error.what());
}

void Communicator::Impl::dump(const std::string& why) {
  if (fork_guard_.is_in_child()) {
    throw Error(ErrorCode::invalid_usage, "after fork() there is no flight record of a communicator of the parent");
  }
  if (!has_failure_record_.load(std::memory_order_acquire)) write_dump(DumpReason::asked, why);
  job_->agent().tell(id_, kDump + why);
}

// By a rank; all of them may be asked at once, and then hear of it from each other.
void Communicator::Impl::dump_when_asked(const std::string& why) {
  if (has_failure_record_.load(std::memory_order_acquire)) return;
  {
    const std::lock_guard lock(dump_mutex_);
    if (dumped_at_ != Clock::time_point::min() && Clock::now() - dumped_at_ < kDumpPause) return;
  }
  write_dump(DumpReason::asked, why);
}

// The error of an operation, once whatever is known of it elsewhere has been waited for.
Error Communicator::Impl::cause_of(const Error& error) {
  if (const std::optional<Error> first = this->error()) return *first;
  switch (error.code()) {
    case ErrorCode::peer_lost:
      return cause_of_loss(error);
    case ErrorCode::mismatch:
    case ErrorCode::timed_out:
      return explained(error);
    default:
      return error;
  }
}

// Who did not answer just before the timeout need not be given as much time again. Who did, and is too busy to do so
// once more, is as it was.
std::vector<Communicator::Impl::Answer> Communicator::Impl::ask_about_timeout() {
  constexpr std::chrono::milliseconds kPatience{100};
  std::vector<bool> was_mute;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) was_mute.push_back(is_mute_[rank]);
  std::vector<Answer> answers = ask_ranks(kPatience);
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (!is_mute_[rank] || was_mute[rank]) continue;
    answers[rank] = last_answers_[rank];
    is_mute_[rank].store(false, std::memory_order_release);
  }
  return answers;
}

// Who loses a connection learns only afterwards that the process at the other end died, or why it gave up.
Error Communicator::Impl::cause_of_loss(const Error& error) const {
  constexpr std::chrono::milliseconds kNewsTime{400}, kLastNews{50}, kPause{2};
  // Who has said good-bye may have gone because of a death, but then its own news of that is on the way.
  const Liveness& liveness = job_->agent().liveness();
  const bool has_anybody_left = std::any_of(members_.begin(), members_.end(),
                                            [&](uint32_t member) { return liveness.state(member) == PeerState::left; });
  const Clock::time_point end = Clock::now() + (has_anybody_left ? kLastNews : kNewsTime);
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

// A rank sees little of a difference between calls: what comes to it at the wrong time, or nothing at all. All of them
// together know what each has called, and whom it waits for.
Error Communicator::Impl::explained(const Error& error) {
  constexpr std::chrono::milliseconds kPatience{1000};
  const bool has_asked = error.code() == ErrorCode::timed_out && has_asked_last_;
  const std::vector<Answer> answers = has_asked ? ask_about_timeout() : ask_ranks(kPatience);
  if (const auto found = difference_between(answers)) return Error(ErrorCode::mismatch, found->sentence + legend());
  if (failed_.load(std::memory_order_acquire)) return *error_;  // others may have gone because of that
  if (error.code() == ErrorCode::mismatch) return Error(error.code(), error.message() + legend());
  std::vector<RankState> states;
  for (uint32_t rank = 0; rank < answers.size(); ++rank) {
    states.push_back(answers[rank].news.state(rank, answers[rank].health));
  }
  const Culprit culprit = find_culprit(states);
  return Error(error.code(), error.message() + (culprit.sentence.empty() ? "" : ": " + culprit.sentence) +
                                 "; see 'banyan doctor " + recorder_directory() + "'");
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
  // A message that nobody waits for may be late as long as it likes.
  const bool may_time_out = started_ > 0 || hasty_.load(std::memory_order_relaxed) > 0;
  const std::chrono::milliseconds timeout = timeout_now();
  if (steps == steps_seen_ && started_ > 0) under_way_[oldest_].entry.wait_for(rank);
  if (steps != steps_seen_) {
    steps_seen_ = steps;
    moved_at_ = now;
    compare_after_ = std::min(kFirstComparison, timeout / 4);
    remind_after_ = kFirstReminder;
    has_asked_last_ = false;
    if (expects_) expectation_ = {};
    expects_ = false;
    return;
  }
  if (!may_time_out) return;
  if (now - moved_at_ >= timeout) {
    throw Error(ErrorCode::timed_out, "nothing has moved for " + std::to_string(timeout.count()) + " ms while " +
                                          name_of(rank_) + " waited for " + name_of(rank));
  }
  if (now - moved_at_ > remind_after_) remind(now, timeout, rank);
  compare_calls(now, timeout);
  if (!expects_ && now - moved_at_ > timeout / 4) {
    expectation_ = job_->agent().expect();
    expects_ = true;
  }
}

// Of the oldest call under way, or of the messages, where there is none.
std::chrono::milliseconds Communicator::Impl::timeout_now() const {
  if (started_ > 0) return under_way_[oldest_].timeout;
  std::optional<std::chrono::milliseconds> shortest;
  for (const std::shared_ptr<Operation>& message : messages_) {
    const std::chrono::milliseconds given = message->call().timeout;
    const std::chrono::milliseconds timeout = given.count() > 0 ? given : options_.timeout;
    shortest = shortest ? std::min(*shortest, timeout) : timeout;
  }
  return shortest.value_or(options_.timeout);
}

// Tells a person what this rank waits for, long before the timeout does.
void Communicator::Impl::remind(Clock::time_point now, std::chrono::milliseconds timeout, uint32_t rank) {
  const auto seconds = [](Clock::duration time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
  };
  std::string call = "a message";
  if (started_ > 0) {
    const UnderWay& oldest = under_way_[oldest_];
    call = describe(record_of(oldest.numbers, oldest.entry.sequence()));
  }
  BANYAN_LOG(warning) << "communicator '" << options_.name << "': still waiting for rank " << rank << " (" << call
                      << "), " << seconds(now - moved_at_) << " of " << seconds(timeout);
  remind_after_ *= 2;
}

// Now and then, and for the last time so long before the timeout that all answers are there when it comes.
void Communicator::Impl::compare_calls(Clock::time_point now, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kPatience{500}, kLastPatience{1000};
  const std::chrono::milliseconds last = std::min(kLastPatience, timeout / 4);
  const bool is_last = !has_asked_last_ && now - moved_at_ >= timeout - last;
  if (!is_last && now - moved_at_ <= compare_after_) return;
  compare_after_ *= kRarer;
  if (has_asked_last_) return;
  has_asked_last_ = is_last;
  const std::chrono::milliseconds left = std::chrono::ceil<std::chrono::milliseconds>(moved_at_ + timeout - now);
  expect_equal_calls(std::min(left, is_last ? last : kPatience));
}

// Ranks that call different things may wait for each other and never exchange a word.
void Communicator::Impl::expect_equal_calls(std::chrono::milliseconds at_most) {
  last_answers_ = ask_ranks(at_most);
  if (const auto found = difference_between(last_answers_)) throw Error(ErrorCode::mismatch, found->sentence);
}

void Communicator::Impl::expect_nobody_dead() const {
  const Liveness& liveness = job_->agent().liveness();
  const std::optional<uint32_t> dead = liveness.first_dead(members_);
  if (!dead) return;
  const auto rank = static_cast<uint32_t>(std::find(members_.begin(), members_.end(), *dead) - members_.begin());
  throw Error(ErrorCode::peer_lost, name_of(rank) + " is dead: " + liveness.why(*dead));
}

// For sentences of which ranks are the group's own. Nothing where they are those of all processes.
std::string Communicator::Impl::legend() const {
  if (name_of(0) == "rank 0") return "";
  return " (ranks of the group of global " + list_ranks(members_) + ")";
}

void Communicator::Impl::expect_present(uint32_t rank) const {
  if (job_->agent().liveness().state(members_[rank]) != PeerState::left || executor_->can_do_without(rank)) return;
  std::string text = name_of(rank) + " has left";
  if (started_ > 0) {
    const UnderWay& call = under_way_[oldest_];
    text += ": it ended its part before this rank's " + describe(record_of(call.numbers, call.entry.sequence()));
  }
  throw Error(ErrorCode::peer_lost, text);
}

}  // namespace banyan::run
