#include "banyan/service/session/session.h"

#include <utility>

#include "banyan/base/check.h"
#include "banyan/service/share/sharer.h"

namespace banyan::service {

Session::Session(Options options)
    : executor_(std::move(options.executor)),
      share_(std::move(options.share)),
      calls_(std::move(options.calls), *executor_, share_.get()),
      plans_(executor_->reviser(), calls_.rank()),
      adopted_(std::move(options.adopted)),
      mark_(std::move(options.mark)),
      failed_(std::move(options.failed)),
      about_(std::move(options.about)),
      moved_(now()) {
  about_.ranks.resize(1);
  about_.ranks.front().rank = calls_.rank();
  mark_lanes();
  if (!has_failed_) plans_.follow(options.grant.plan);
  show();
}

// The other ranks are told by the client, which finds out why first: a lost connection may be a rank that has died.
void Session::fail(const Error& error) {
  // (1): only the first error counts, and the client hears of it once.
  if (std::exchange(has_failed_, true)) return;
  about_.ranks.front().error = error.what();
  failed_(error);
}

bool Session::step(size_t most) {
  const bool moved = step_on(most);
  has_stepped_ = true;
  // The next step may find something unless this one found nothing, or all that is left waits for a peer or the client.
  may_move_ = moved && (plans_.has_work() || !calls_.waits_for_others());
  vain_steps_ = may_move_ ? 0 : vain_steps_ + 1;
  return moved;
}

bool Session::step_on(size_t most) {
  if (has_failed_) return false;
  try {
    // Plans first, since calls may wait for them; then what the client has submitted; then what is under way.
    const std::optional<Clock::time_point> due = poll_at();
    bool moved = (plans_.has_work() || (due && Clock::now() >= *due)) && poll();
    moved |= calls_.take(most);
    moved |= calls_.advance();
    if (calls_.has_unread()) show_flags();  // before the client can know that they are over
    CHECK(!has_failed_) << "rank " << calls_.rank() << " completes calls after its failure";
    moved |= calls_.complete();
    if (share_) share_->look(calls_.has_messages());
    if (moved) {
      moved_ = now();
      show();
    }
    return moved;
  } catch (const Error& error) {
    fail(error);
    return true;
  }
}

// By the class of the communicator: its calls share lanes, whatever rules grant to one of them.
void Session::mark_lanes() {
  if (!mark_ || has_failed_) return;
  try {
    mark_(about_.share_class);
  } catch (const Error& error) {
    fail(error);
  }
}

// True when that moved something: whom the calls wait for may be another rank now.
bool Session::poll() {
  const uint64_t steps = executor_->steps();
  plans_.poll();
  return executor_->steps() != steps;
}

void Session::set_rate(uint64_t rate) {
  if (share_) share_->set_rate(rate);
}

std::optional<PlannedCall> Session::planned() const {
  std::optional<PlannedCall> call = share_ ? share_->planned() : std::nullopt;
  if (call && adopted_) call->adopted = adopted_();
  return call;
}

CommunicatorView Session::view() const {
  CommunicatorView view = about_;
  RankView& rank = view.ranks.front();
  calls_.describe(rank, moved_);
  plans_.describe(rank);
  rank.core_seconds = std::chrono::duration<double>(billed_).count();
  const run::SentBytes sent = executor_->sent_bytes();
  rank.sent_tcp_bytes = sent.tcp;
  rank.sent_shared_memory_bytes = sent.shared_memory;
  if (share_) {
    view.rate = share_->rate();
    view.progress = share_->progress();
  }
  return view;
}

void Session::set_terms(const Grant& grant, std::shared_ptr<CallGrants> calls) {
  calls_.set_grants(std::move(calls));
  if (!has_failed_) plans_.follow(grant.plan);
  about_.rule = grant.rule;
  about_.sharer = sharer_of(about_.tenant, grant.has_own_share);
  about_.weight = grant.weight;
  about_.share_class = grant.share_class;
  about_.cap = grant.cap;
  mark_lanes();
  if (share_) share_->set_terms(grant);
}

void Session::prepare(run::WaitSet& set) {
  try {
    // The session is its executor's events, and a moment after which it looks in any case.
    executor_->events()->prepare(set);
    waits_until_ = now() + kLongestWait;
    set.wake_at(run::WaitSet::Clock::time_point(waits_until_));
    if (const auto next = share_ ? share_->next() : std::nullopt) set.wake_at(run::WaitSet::Clock::time_point(*next));
  } catch (const Error& error) {
    fail(error);
    set.work_now();
  }
}

bool Session::react(std::span<const pollfd> polled) {
  if (has_failed_) return true;
  try {
    return executor_->events()->react(polled) || (share_ && share_->is_due()) || now() >= waits_until_;
  } catch (const Error& error) {
    fail(error);
    return true;
  }
}

// What the client's watch sees.
void Session::show() {
  SessionStatus& status = calls_.rings().status();
  status.steps.store(executor_->steps(), std::memory_order_relaxed);
  status.progress.store(executor_->progress(), std::memory_order_relaxed);
  status.waiting_for.store(executor_->waiting_for(), std::memory_order_relaxed);
  const run::SentBytes sent = executor_->sent_bytes();
  status.sent_tcp.store(sent.tcp, std::memory_order_relaxed);
  status.sent_shared_memory.store(sent.shared_memory, std::memory_order_relaxed);
  show_flags();
}

void Session::show_flags() {
  const uint32_t flags = (plans_.is_unsettled() ? SessionStatus::kIsUnsettled : 0) |
                         (executor_->notices_last_bytes() ? SessionStatus::kNoticesLastBytes : 0);
  calls_.rings().status().flags.store(flags, std::memory_order_relaxed);
}

}  // namespace banyan::service
