// Beginning and end of a communicator, what it hears of other ranks, and how it fails.
#include "banyan/run/communicator/core.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/text.h"
#include "banyan/run/communicator/default_executors.h"
#include "banyan/run/record/log.h"

namespace banyan::run {
namespace {

static_assert(CallLog::kMostUnderWay >= Driver::kMostUnderWay);

// The words by which texts to all ranks begin.
constexpr const char* kFailure = "failed ";
constexpr const char* kDump = "dump ";

}  // namespace

Communicator::Impl::Impl(std::shared_ptr<JoinedProcesses> job, uint64_t id, std::vector<uint32_t> members,
                         Options options)
    : job_(std::move(job)),
      id_(id),
      members_(std::move(members)),
      options_(std::move(options)),
      peers_(job_, id_, members_),
      regrouping_(*job_, id_, members_, peers_) {
  const TimeSource& time = AwakeTime::instance();
  const auto own = std::ranges::find(members_, job_->rank());
  CHECK(own != members_.end()) << "process " << job_->rank() << " is no member";
  rank_ = static_cast<uint32_t>(own - members_.begin());
  const std::unique_ptr<ExecutorFactory> factory =
      options_.executors ? options_.executors(job_, options_) : std::make_unique<DefaultExecutors>(job_, options_);
  log_ = std::make_unique<CallLog>(CallLog::Options{.communicator = options_.name,
                                                    .id = id_ == 1 ? "" : std::to_string(id_),
                                                    .rank = rank_,
                                                    .size = static_cast<uint32_t>(members_.size()),
                                                    .timeout = options_.timeout,
                                                    .health = [this](uint32_t rank) { return watch_->health_of(rank); },
                                                    .memory = factory->record_memory(members_),
                                                    .records_codes = factory->wants_equal_codes(members_)},
                                   time);
  watch_ = std::make_unique<CallWatch>(CallWatch::Options{.communicator = options_.name, .rank = rank_}, time,
                                       patience_, peers_, *log_, first_error_);
  executor_ = make_executor(*factory);
  driver_ = std::make_unique<Driver>(*executor_, *this, time, patience_, options_.progress);
  hooks_ = job_->agent().attach(
      id_, {.state = [this] { return log_->news().encode(); },
            .broadcast = [this](const std::string& text) { receive(text); },
            .liveness_changed =
                [this] {
                  check_fence();
                  executor_->wake();
                  first_error_.announce_news();
                },
            .failed = [this](const Error& error) { fail_without_agent(error); },
            .look = [this] { return CommunicatorView{.record = log_->look(), .lanes = executor_->lane_bytes()}; }});
  check_fence();
  signal_ = on_dump_signal([this] { dump("a signal asked for it"); });
  statistics_ = StatisticsBoard::of_process().enter(options_.name, place(), [this] { return statistics(); });
}

JobPlace Communicator::Impl::place() const {
  JobPlace place{.rank = job_->rank(), .size = job_->size()};
  for (uint32_t rank = 0; rank < job_->rank(); ++rank) place.rank_on_host += job_->is_here(rank) ? 1 : 0;
  return place;
}

std::unique_ptr<Executor> Communicator::Impl::make_executor(ExecutorFactory& factory) {
  ExecutorFactory::Made made =
      factory.make({.id = id_,
                    .name = options_.name,
                    .members = members_,
                    .rank = rank_,
                    .send_failure = [this](const Error& error) { send_failure(error); },
                    .send_text = [this](const std::string& text) { job_->agent().broadcast(id_, text); }});
  is_on_one_host_ = made.is_on_one_host;
  set_log_rank(job_->rank());
  BANYAN_LOG(info) << "communicator '" << options_.name << "': rank " << rank_ << " of " << members_.size() << ", "
                   << made.means;
  return std::move(made.executor);
}

// ---- News of other ranks ----

// A failure goes round as "failed <code> <text>", before the call returns that has failed: then the process may end.
void Communicator::Impl::send_failure(const Error& error) {
  job_->agent().broadcast_now(id_, kFailure + std::to_string(static_cast<int>(error.code())) + " " + error.what());
}

void Communicator::Impl::receive(const std::string& text) {
  if (text.starts_with(kFailure)) {
    receive_failure(text.substr(std::string_view(kFailure).size()));
  } else if (text.starts_with(kDump)) {
    log_->write_for_peer(text.substr(std::string_view(kDump).size()));
  } else if (PlanReviser* const reviser = executor_->reviser()) {
    reviser->receive(text);
    if (!fork_guard_.is_in_child()) driver_->poll_reviser();
  }
}

void Communicator::Impl::receive_failure(const std::string& reason) {
  int code = 0;
  const auto [end, failure] = std::from_chars(reason.data(), reason.data() + reason.size(), code);
  if (failure != std::errc() || code < 0 || code > static_cast<int>(ErrorCode::invalid_usage)) return;
  const auto skipped = static_cast<size_t>(end - reason.data());
  receive_error(Error(static_cast<ErrorCode>(code), reason.substr(std::min(skipped + 1, reason.size()))));
}

// The others took this rank for dead, and go on without it.
void Communicator::Impl::check_fence() {
  const Liveness& liveness = job_->agent().liveness();
  if (liveness.is_fenced()) receive_error(Error(ErrorCode::peer_lost, liveness.fence()));
}

void Communicator::Impl::receive_error(const Error& error) {
  // A rank that ends the communicator, or shrinks it, fails nothing where nothing is under way.
  const bool is_under_way = driver_->is_busy();
  if (!first_error_.note(error)) return;
  executor_->wake();
  if (error.code() == ErrorCode::aborted && !is_under_way) return;
  failure_ = static_cast<int>(error.code());
  log_->write_failure(DumpReason::asked, error);
}

// ---- Calls ----

void Communicator::Impl::run(const Call& call) {
  expect_usable();
  expect_possible(call, rank_, static_cast<uint32_t>(members_.size()));
  driver_->run(call);
}

std::vector<std::shared_ptr<Operation>> Communicator::Impl::start(std::span<const Call> calls) {
  expect_usable();
  for (const Call& call : calls) expect_possible(call, rank_, static_cast<uint32_t>(members_.size()));
  return driver_->start(calls);
}

void Communicator::Impl::finalize() {
  expect_usable();
  driver_->wait_for_all();
}

void Communicator::Impl::waiting_for(uint32_t rank) {
  const bool has_calls = log_->under_way() > 0;
  watch_->look({.rank = rank,
                .steps = executor_->progress(),
                .timeout = has_calls ? log_->oldest().timeout : driver_->message_timeout(options_.timeout),
                .can_do_without = executor_->can_do_without(rank),
                .notices_last_bytes = executor_->notices_last_bytes()});
}

void Communicator::Impl::dump(const std::string& why) {
  if (fork_guard_.is_in_child()) {
    throw Error(ErrorCode::invalid_usage, "after fork() there is no flight record of a communicator of the parent");
  }
  log_->write_when_asked(why);
  job_->agent().broadcast(id_, kDump + why);
}

// ---- Errors ----

void Communicator::Impl::expect_own_process() const {
  if (!fork_guard_.is_in_child()) return;
  throw Error(ErrorCode::invalid_usage, "a communicator cannot be used after fork(); join anew in the child process");
}

void Communicator::Impl::expect_usable() {
  expect_own_process();
  if (!first_error_.is_set()) return;
  // An error of another rank, which this rank knew before the call, fails the call.
  if (!log_->has_failed_call()) log_->write_failure(DumpReason::error, first_error_.get());
  throw Error(first_error_.get());
}

std::optional<Error> Communicator::Impl::first_error() const {
  if (first_error_.is_set()) return first_error_.get();
  return executor_->broken();
}

uint32_t Communicator::Impl::reroutes() const {
  const PlanReviser* const reviser = executor_->reviser();
  return reviser == nullptr ? 0 : reviser->reroutes();
}

Statistics Communicator::Impl::statistics() const {
  Statistics statistics{
      .calls = log_->totals(), .sent = executor_->sent_bytes(), .reroutes = reroutes(), .revisions = generation()};
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    statistics.lost_peers += peers_.health(rank) == Health::dead ? 1 : 0;
  }
  if (const int code = failure_; code >= 0) statistics.failures[static_cast<ErrorCode>(code)] = 1;
  return statistics;
}

Error Communicator::Impl::cause_of(const Error& error) {
  if (const std::optional<Error> first = first_error()) return *first;
  return watch_->cause_of(error);
}

// "; of the message of rank 1 (tag 2), 131,072 of 12,000,000 bytes had come": of a receive whose message had begun.
std::string Communicator::Impl::words_of_part(const Call& call) const {
  if (call.kind != OperationKind::recv) return {};
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    const auto part = executor_->arriving_from(rank);
    if (!part || part->into != call.recv) continue;
    return "; of the message of " + peers_.name_of(rank) + " (tag " + std::to_string(call.tag) + "), " +
           with_thousands(part->taken) + " of " + with_thousands(part->size) + " bytes had come";
  }
  return {};
}

// A timeout that another rank has told of says what that one was in, and a loss what has come of a message. Where there
// is no memory for more, it stays so.
Error Communicator::Impl::error_of(const Call& call) noexcept {
  const Error& first = first_error_.get();
  try {
    if (first.code() == ErrorCode::peer_lost) {
      const std::string part = words_of_part(call);
      return part.empty() ? first : Error(first.code(), first.message() + part, first.where());
    }
    const std::string own_name = peers_.name_of(rank_);
    const bool is_own = first.message().find("while " + own_name + " waited ") != std::string::npos;
    if (first.code() != ErrorCode::timed_out || is_own) return first;
    return Error(first.code(), first.message() + "; " + own_name + " was in its " + words_of(call));
  } catch (...) {
    return first;
  }
}

uint32_t Communicator::Impl::generation() const {
  const PlanReviser* const reviser = executor_->reviser();
  return reviser == nullptr ? 0 : reviser->generation();
}

void Communicator::Impl::revise(const PlanWish& wish) {
  expect_usable();
  PlanReviser* const reviser = executor_->reviser();
  if (reviser == nullptr) {
    throw Error(ErrorCode::unsupported, "the plans of '" + options_.name +
                                            "' cannot be revised: set Options::revises_plans on all ranks, and have "
                                            "its calls follow plans");
  }
  reviser->propose(wish);
  driver_->poll_reviser();
  driver_->wake();
}

bool Communicator::Impl::break_with(const Error& error) {
  if (!first_error_.note(error)) return false;
  BANYAN_LOG(info) << "communicator '" << options_.name << "' has failed: " << error.what();
  executor_->break_with(error);
  return true;
}

// By the wish of this rank, which is no failure.
void Communicator::Impl::end(const Error& error) {
  if (break_with(error)) log_->expect_no_failure();
}

// The communicator has failed once the error is noted, even where the rest is impossible for want of memory.
void Communicator::Impl::fail(const Error& error) noexcept {
  log_->notice_failure();
  try {
    if (!break_with(error)) {
      // Another rank has told of an error first, which is the cause; here a call fails of it.
      if (!log_->has_failed_call()) log_->write_failure(DumpReason::error, first_error_.get());
      return;
    }
    failure_ = static_cast<int>(error.code());
    const bool is_timeout = error.code() == ErrorCode::timed_out;
    // The ranks that are late are in no call in which they could notice.
    if (is_timeout) send_failure(error);
    log_->write_failure(is_timeout ? DumpReason::timeout : DumpReason::error, error);
  } catch (...) {
    BANYAN_LOG(warning) << "not all could be told that communicator '" << options_.name
                        << "' has failed: " << current_error().what();
  }
}

// What this rank hears of others is lost from now on.
void Communicator::Impl::fail_without_agent(const Error& error) noexcept {
  fail(error);
  driver_->wake();
}

// ---- The end ----

Communicator::Impl::~Impl() {
  statistics_ = {};
  hooks_ = {};  // they use what goes now
  signal_ = {};
}

void Communicator::Impl::abort(const std::string& why) {
  expect_own_process();
  try {
    fail(Error(ErrorCode::aborted, peers_.name_of(rank_) + " aborted: " + why));
  } catch (...) {  // there is no memory for the text; the communicator fails all the same
    fail(current_error());
  }
  driver_->wake();
}

// Requests may outlive the communicator, and find their operations ended.
void Communicator::Impl::close() noexcept {
  if (fork_guard_.is_in_child()) return driver_->forget_threads();  // they and the peers belong to the parent
  driver_->stop_threads();
  statistics_ = {};
  hooks_ = {};
  signal_ = {};
  driver_->end_all([this](bool has_calls) { end_as_closed(has_calls); });
}

// The operations that are under way need an error to end with, be it that there is no memory for one.
void Communicator::Impl::end_as_closed(bool has_calls) noexcept {
  try {
    // A rank that has only looked at the error of another one, in no call of its own, has written no record of it yet.
    const std::optional<Error> why = executor_->broken();
    if (why && first_error_.note(*why) && why->code() != ErrorCode::aborted) {
      log_->write_failure(DumpReason::asked, *why);
    }
    const Error closed(ErrorCode::aborted, peers_.name_of(rank_) + " closed the communicator");
    if (has_calls) {
      end(closed);
    } else if (first_error_.note(closed)) {
      log_->expect_no_failure();
    }
  } catch (...) {
    fail(current_error());
  }
}

// ---- The next group ----

Communicator::Agreed Communicator::Impl::agree(int32_t flag, std::chrono::milliseconds at_most) {
  expect_own_process();
  return regrouping_.agree(flag, at_most);
}

Communicator Communicator::Impl::shrink(std::span<const uint32_t> excluded, std::chrono::milliseconds patience,
                                        Options options) {
  expect_own_process();
  const Deadline deadline = Deadline::after(2 * patience + std::chrono::seconds(10));
  SurvivorQuestion question = regrouping_.question_without(excluded);
  question.patience = patience;
  question.rule = options.survivors;
  question.deadline = deadline.at();
  options.joins_by = deadline;
  const Error shrinks(ErrorCode::aborted,
                      "rank " + std::to_string(rank_) + " shrinks the communicator '" + options_.name + "'");
  end(shrinks);
  driver_->end_all([](bool) {});
  for (;;) {
    const Regrouping::Group group = regrouping_.next_group(question);
    try {
      return {job_, group.id, group.members, options};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::peer_lost || !regrouping_.has_lost_one_of_host(group)) throw;
    }
  }
}

}  // namespace banyan::run
