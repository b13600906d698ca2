#include "banyan/service/client/service_executor.h"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::service {
namespace {

constexpr std::chrono::milliseconds kLongestSleep{100};
constexpr std::chrono::microseconds kBetweenLooks{50};

}  // namespace

ServiceExecutor::ServiceExecutor(std::shared_ptr<Attachment> attachment, OpenSession wish, Options options,
                                 const run::Deadline& deadline)
    : options_(std::move(options)),
      attachment_(std::move(attachment)),
      staging_(*attachment_, options_.rank, options_.size),
      back_off_(back_off()),
      messages_(options_.size),
      is_reported_gone_(options_.size),
      session_(attachment_->open(std::move(wish),
                                 {.failed = [this](const Error& error) { fail_here(error); },
                                  .fail_peers = [this](const Error& error) { fail_peers(error); },
                                  .succeeded = options_.succeeded},
                                 deadline)),
      rings_(session_->page()) {
  can_sleep_ = true;
}

// The session first: its hooks use the rest. And what the daemon has of the calls under way is withdrawn after it has
// been told to leave off.
ServiceExecutor::~ServiceExecutor() {
  if (!fork_guard_.is_in_child()) wait_until_settled();
  session_.reset();
}

void ServiceExecutor::wait_until_settled() const {
  const auto end = std::chrono::steady_clock::now() + kLongestSettling;
  const auto wants_to = [this] {
    const uint32_t flags = status().flags.load(std::memory_order_relaxed);
    return calls_.empty() && !failure_.is_set() && !attachment_->has_gone() &&
           (flags & SessionStatus::kIsUnsettled) != 0;
  };
  while (wants_to() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kBetweenLooks);
}

// ---- Failing ----

// By the attachment's thread.
void ServiceExecutor::fail_here(const Error& error) noexcept {
  failure_.note(error);
  if (can_sleep_) wake();
}

// Also after a failure that the daemon has told of: the communicator knows its cause better, and tells it before its
// process may end.
void ServiceExecutor::break_with(const Error& error) {
  if (is_broken_.exchange(true)) return;
  failure_.note(error);
  wake();
  fail_peers(error);
  // After the peers know why. What comes now may go to buffers that the caller has other uses for.
  session_->close();
}

// They have daemons of their own: which one has gone has to be said.
void ServiceExecutor::fail_peers(const Error& error) {
  if (!options_.fail_peers) return;
  const bool is_loss = error.code() == ErrorCode::peer_lost && error.message() == attachment_->loss().message();
  if (!is_loss) return options_.fail_peers(error);
  options_.fail_peers(
      Error(ErrorCode::peer_lost, "the service of " + options_.own_name + " has gone (" + attachment_->url() + ")"));
}

// Not what the daemon tells of a session: the communicator has still to find out why, which may be that a rank has
// died.
std::optional<Error> ServiceExecutor::broken() const {
  if (fork_guard_.is_in_child()) return std::nullopt;
  const bool has_gone = attachment_->has_gone();
  if (failure_.is_set()) return is_broken_ || has_gone ? std::optional(failure_.get()) : std::nullopt;
  return has_gone ? std::optional(attachment_->loss()) : std::nullopt;
}

void ServiceExecutor::expect_own_process() const {
  if (!fork_guard_.is_in_child()) return;
  throw Error(ErrorCode::unsupported, "the service carries out no calls of a forked process; it has to attach anew");
}

// Runs what reads the page, which the daemon may have written nonsense to.
template <typename Body>
auto ServiceExecutor::guarded(Body body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input) throw;
    break_with(Error(ErrorCode::peer_lost, error.message() + " (" + attachment_->url() + ")"));
  }
  throw Error(failure_.get());
}

// ---- Calls and messages ----

void ServiceExecutor::start(const run::Call& call, const run::CallNumbers& /*numbers*/) {
  expect_own_process();
  failure_.expect_none();
  CHECK(calls_.size() < kDepth) << "too many calls are under way";
  calls_.push_back({.staged = staging_.stage(call)});
  guarded([&] { return submit_waiting(); });
}

bool ServiceExecutor::advance() {
  move();
  if (calls_.empty()) return true;
  if (done_calls_ == 0) {
    failure_.expect_none();
    return false;
  }
  calls_.pop_front();
  --done_calls_;
  --submitted_;
  return true;
}

// As HostGroup waits. What the daemon moves is no reason to stay awake: the daemon may need this very core.
void ServiceExecutor::finish(run::Watch& watch) {
  constexpr uint32_t kFirstQuestion = 64, kLooksBetweenQuestions = 256;
  back_off_.begin();
  uint32_t looks = 0;
  bool is_known = false;  // to the watch
  while (!advance()) {
    const bool is_awake = back_off_.pause();
    if (is_awake && ++looks != kFirstQuestion && looks % kLooksBetweenQuestions != 0) continue;
    watch.waiting_for(waiting_for());
    is_known = true;
    if (is_awake) continue;
    sleep([&] { return advance(); });
    watch.woke();
    back_off_.slept();
  }
  if (is_known) watch.woke();
  back_off_.end();
}

uint64_t ServiceExecutor::start_message(const run::Call& call) {
  expect_own_process();
  failure_.expect_none();
  const uint64_t ticket = messages_.add(call.other, staging_.stage(call));
  guarded([&] { return submit_waiting(); });
  return ticket;
}

bool ServiceExecutor::advance_messages(std::vector<MessageDone>& done) {
  if (messages_.is_empty()) return false;
  const bool moved = move() || messages_.has_done();
  if (!moved) failure_.expect_none();
  messages_.take_done(done);
  return moved;
}

// Whether anything was.
bool ServiceExecutor::move() {
  expect_own_process();
  const bool moved = guarded([&] {
    const bool has_taken = take_completions();
    return (!failure_.is_set() && submit_waiting()) || has_taken;
  });
  look_for_gone();
  own_steps_ += moved ? 1 : 0;
  return moved;
}

bool ServiceExecutor::take_completions() {
  bool has_taken = false;
  while (const std::optional<Completion> completion = rings_.take()) {
    complete(*completion);
    has_taken = true;
  }
  if (has_taken && rings_.is_awaited()) session_->ring();
  return has_taken;
}

void ServiceExecutor::complete(const Completion& completion) {
  if (done_calls_ < submitted_ && calls_[done_calls_].sequence == completion.sequence) {
    staging_.finish(std::move(calls_[done_calls_++].staged.call), true);
    return;
  }
  staging_.finish(messages_.end(completion), true);
}

bool ServiceExecutor::submit_waiting() {
  bool has_submitted = false;
  const auto has_call = [&] { return submitted_ < calls_.size(); };
  for (; (has_call() || messages_.has_waiting()) && rings_.has_room(); has_submitted = true) {
    if (has_call()) {
      Flight& flight = calls_[submitted_++];
      flight.sequence = rings_.submit(flight.staged.submission);
    } else {
      messages_.submit_next(rings_);
    }
  }
  if (has_submitted) session_->ring();
  return has_submitted;
}

// ---- What a watcher sees ----

uint64_t ServiceExecutor::steps() const { return status().steps.load(std::memory_order_relaxed) + own_steps_; }

uint64_t ServiceExecutor::progress() const { return status().progress.load(std::memory_order_relaxed) + own_steps_; }

uint32_t ServiceExecutor::waiting_for() const {
  const uint32_t rank = status().waiting_for.load(std::memory_order_relaxed);
  return rank < options_.size ? rank : options_.rank;
}

bool ServiceExecutor::can_do_without(uint32_t rank) const { return calls_.empty() && !messages_.needs(rank); }

bool ServiceExecutor::notices_last_bytes() const {
  return (status().flags.load(std::memory_order_relaxed) & SessionStatus::kNoticesLastBytes) != 0;
}

run::SentBytes ServiceExecutor::sent_bytes() const {
  return {.tcp = status().sent_tcp.load(std::memory_order_relaxed),
          .shared_memory = status().sent_shared_memory.load(std::memory_order_relaxed)};
}

// The daemon hears of the end of processes of its own host only, and not of those that leave.
void ServiceExecutor::look_for_gone() {
  if (options_.gone_changes == nullptr) return;
  const uint32_t changes = options_.gone_changes->load(std::memory_order_acquire);
  if (changes == gone_seen_) return;
  gone_seen_ = changes;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank || is_reported_gone_[rank] || !options_.is_gone(rank)) continue;
    is_reported_gone_[rank] = true;
    session_->report_gone(rank);
  }
}

// ---- Sleeping ----

// What `try_again` throws is no nonsense of the daemon.
void ServiceExecutor::sleep(const std::function<bool()>& try_again) {
  std::exception_ptr thrown;
  const auto has_woken = [&] {
    try {
      return is_woken_.exchange(false) || failure_.is_set() || try_again();
    } catch (...) {
      thrown = std::current_exception();
      return true;
    }
  };
  guarded([&] { rings_.sleep(has_woken, kLongestSleep); });
  if (thrown) std::rethrow_exception(thrown);
}

void ServiceExecutor::wake() {
  is_woken_ = true;
  rings_.wake();
}

}  // namespace banyan::service
