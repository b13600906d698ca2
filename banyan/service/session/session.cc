#include "banyan/service/session/session.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/call/operation.h"
#include "banyan/run/record/log.h"
#include "banyan/service/share/sharer.h"

namespace banyan::service {
namespace {

// Bytes of the larger buffer.
uint64_t payload_of(const run::Call& call, uint32_t rank, uint32_t size) {
  return std::max(call.send_elements(rank, size), call.recv_elements(rank, size)) * element::size_of(call.type);
}

// As rules see it: of a call with a root by the buffers there, so that it is the same on every rank. Of an all-to-allv
// each rank knows its own part only.
AskedCall asked_call(const run::Call& call, uint32_t rank, uint32_t size) {
  const uint32_t whose = run::is_rooted(call.kind) ? call.other : rank;
  return {.kind = call.kind, .bytes = payload_of(call, whose, size)};
}

// "allreduce of 4 MiB", "barrier".
std::string in_words(const AskedCall& asked) {
  const std::string kind(run::to_string(asked.kind));
  return asked.kind == run::OperationKind::barrier ? kind : kind + " of " + Bytes(asked.bytes).to_string();
}

constexpr uint64_t kLarge = 64 << 10;  // bytes of a call that is no quick one

// Bytes of the executor's own memory: copies of inputs that are scaled, and of those that outputs overwrite while they
// may be wanted again (run/engine/kept_input.h).
uint64_t copied_bytes(const run::Call& call, uint32_t rank, uint32_t size) {
  const uint64_t unit = element::size_of(call.type);
  const uint64_t sent = call.send_elements(rank, size) * unit, received = call.recv_elements(rank, size) * unit;
  const bool is_scaled = call.op == element::ReduceOp::premul_sum && run::reduces(call.kind);
  const bool overlap = sent > 0 && received > 0 && call.send < call.recv + received && call.recv < call.send + sent;
  return (is_scaled ? sent : 0) + (overlap ? sent : 0);
}

}  // namespace

Session::Session(Options options)
    : rules_(options.rules),
      memory_(std::move(options.memory)),
      rings_(*options.page),
      regions_(*options.regions),
      executor_(std::move(options.executor)),
      share_(std::move(options.share)),
      adopted_(std::move(options.adopted)),
      mark_(std::move(options.mark)),
      failed_(std::move(options.failed)),
      grants_(std::move(options.calls)),
      account_(std::move(options.account)),
      about_(std::move(options.about)),
      moved_(now()),
      idle_since_(moved_) {
  about_.ranks.resize(1);
  about_.ranks.front().rank = rules_.rank;
  mark_lanes();
  follow(options.grant.plan);
  show();
}

// The other ranks are told by the client, which finds out why first: a lost connection may be a rank that has died.
void Session::fail(const Error& error) {
  if (std::exchange(has_failed_, true)) return;
  about_.ranks.front().error = error.what();
  failed_(error);
}

bool Session::step(size_t most) {
  const bool moved = step_on(most);
  has_stepped_ = true;
  may_move_ = moved && !waits_for_others();
  vain_steps_ = may_move_ ? 0 : vain_steps_ + 1;
  return moved;
}

// For a peer, or for the client, who will ring.
bool Session::waits_for_others() const {
  const bool is_quiet = messages_.empty() && unsaid_.empty() && !is_addressed_ && has_taken_all_;
  return is_quiet && (calls_.empty() || executor_->waits_for_peers());
}

bool Session::step_on(size_t most) {
  if (has_failed_) return false;
  try {
    const std::optional<Clock::time_point> due = attend_at();
    bool moved = (is_addressed_ || (due && Clock::now() >= *due)) && attend();
    moved |= take(most);
    moved |= move();
    moved |= say();
    if (share_) share_->look(!messages_.empty());
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

// A client that reads no completions, or has very many messages under way, finds its ring full and waits.
bool Session::has_room_for_calls() const {
  if (unsaid_.size() >= kMostUnsaid || messages_.size() >= kMostMessages) return false;
  return messages_.size() < kOwnMessages || !account_ || account_->has_room(Resource::messages, 1);
}

// What it costs the daemon beside its time. Throws Error{unsupported} when that is more than its user may have.
TenantAccount::Charge Session::charge_for(const run::Call& call) const {
  if (!account_) return {};
  if (run::is_message(call.kind)) {
    return messages_.size() < kOwnMessages ? TenantAccount::Charge() : account_->take(Resource::messages, 1);
  }
  const uint64_t copied = copied_bytes(call, rules_.rank, rules_.size);
  return copied == 0 ? TenantAccount::Charge() : account_->take(Resource::kept_bytes, copied);
}

bool Session::take(size_t most) {
  bool moved = false;
  has_taken_all_ = false;
  for (size_t taken = 0; taken < most && has_room_for_calls(); ++taken) {
    const std::optional<Submission> submission = rings_.take();
    has_taken_all_ = !submission;
    if (!submission) break;
    moved = true;
    std::variant<ValidCall, Refusal> checked = validate(*submission, rules_, regions_);
    if (const Refusal* const refusal = std::get_if<Refusal>(&checked)) {
      throw Error(ErrorCode::invalid_input, "the service refuses a call: " + refusal->words);
    }
    ++rules_.next_sequence;
    begin(std::get<ValidCall>(std::move(checked)), submission->sequence);
  }
  return moved;
}

// What the rules grant for it where they look at calls, else nothing.
const Grant* Session::permit(const run::Call& call) {
  if (!grants_) return nullptr;
  const AskedCall asked = asked_call(call, rules_.rank, rules_.size);
  const auto [grant, is_new] = grants_->of(asked);
  if (grant.logs && is_new) {
    BANYAN_LOG(info) << "rule " << in_quotes(grant.rule) << ": " << in_quotes(about_.name) << ", rank " << rules_.rank
                     << " begins the first " << in_words(asked) << " or the like";
  }
  if (!grant.denial) return &grant;
  throw Error(ErrorCode::invalid_usage, "the rules of the service deny this call (" + in_words(asked) +
                                            "): " + *grant.denial + " (rule " + in_quotes(grant.rule) + ")");
}

// All ranks follow the plans that rank 0 asks for, from some call on: the rules of their hosts may differ.
void Session::follow(const std::string& plan) {
  run::PlanReviser* const reviser = executor_->reviser();
  if (rules_.rank != 0 || plan == plan_ || reviser == nullptr || has_failed_) return;
  plan_ = plan;
  propose({.planner = plan.empty() ? run::FabricUpdate::kBestPlanner : plan});
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

void Session::begin(ValidCall call, uint64_t sequence) {
  const Grant* const grant = permit(call.call);
  is_quick_ = call.bytes < kLarge;
  TenantAccount::Charge charge = charge_for(call.call);
  if (run::is_message(call.call.kind)) {
    // It stays where it is while the executor has it; what it is found by is known only afterwards.
    decltype(messages_) one;
    Flight& flight = one[0];
    flight = {.sequence = sequence, .call = std::move(call), .charge = std::move(charge)};
    const uint64_t ticket = executor_->start_message(flight.call.call);
    auto node = one.extract(one.begin());
    node.key() = ticket;
    CHECK(messages_.insert(std::move(node)).inserted) << "ticket " << ticket;
    return;
  }
  if (calls_.size() >= executor_->depth()) {
    throw Error(ErrorCode::invalid_input,
                "the service refuses a call: " + std::to_string(executor_->depth()) + " are under way already");
  }
  if (calls_.empty()) idle_before_ += now() - idle_since_;
  Flight& flight = calls_.emplace_back(
      Flight{.sequence = sequence, .call = std::move(call), .begun = now(), .charge = std::move(charge)});
  flight.number = ++started_;
  if (share_ && grant != nullptr) share_->expect(flight.number, *grant);
  executor_->start(flight.call.call, numbers_of(flight.call.call));
}

bool Session::move() {
  const uint64_t steps = executor_->steps();
  bool moved = false;
  while (!calls_.empty() && executor_->advance()) {
    complete(calls_.front(), 0);
    ++about_.ranks.front().calls_over;
    if (share_) share_->end(calls_.front().number);
    calls_.pop_front();
    if (calls_.empty()) idle_since_ = now();
    moved = true;
  }
  if (!messages_.empty()) {
    done_.clear();
    moved |= executor_->advance_messages(done_);
    for (const auto& done : done_) {
      const auto flight = messages_.find(done.ticket);
      CHECK(flight != messages_.end()) << "ticket " << done.ticket;
      complete(flight->second, done.peer);
      ++about_.ranks.front().messages_over;
      messages_.erase(flight);
    }
  }
  return moved || executor_->steps() != steps;
}

void Session::hear(const std::string& text) {
  run::PlanReviser* const reviser = executor_->reviser();
  if (has_failed_ || reviser == nullptr) return;
  reviser->hear(text);
  is_addressed_ = true;
}

uint64_t Session::propose(const run::PlanWish& wish) {
  run::PlanReviser* const reviser = executor_->reviser();
  if (reviser == nullptr) throw Error(ErrorCode::unsupported, "the plans of this session cannot be revised");
  is_addressed_ = true;
  return reviser->propose(wish);
}

// True when that moved something: whom the calls wait for may be another rank now.
bool Session::attend() {
  run::PlanReviser& reviser = *executor_->reviser();
  const uint64_t steps = executor_->steps();
  reviser.attend();
  is_addressed_ = reviser.is_unsettled();
  return executor_->steps() != steps;
}

std::optional<Session::Clock::time_point> Session::attend_at() const {
  const run::PlanReviser* const reviser = executor_->reviser();
  return has_failed_ || reviser == nullptr ? std::nullopt : reviser->attend_at();
}

void Session::complete(const Flight& flight, uint32_t peer) {
  show_flags();  // before the client can know that it is over
  about_.ranks.front().payload_bytes += payload_of(flight.call.call, rules_.rank, rules_.size);
  unsaid_.push_back({.sequence = flight.sequence, .peer = peer});
}

bool Session::say() {
  bool moved = false;
  for (; !unsaid_.empty() && rings_.has_room(); unsaid_.pop_front()) {
    has_woken_ |= rings_.complete(unsaid_.front());
    moved = true;
  }
  return moved;
}

void Session::set_rate(uint64_t rate) {
  if (share_) share_->set_rate(rate);
}

std::optional<PlannedCall> Session::planned() const {
  std::optional<PlannedCall> call = share_ ? share_->planned() : std::nullopt;
  if (call && adopted_) call->adopted = adopted_();
  return call;
}

std::optional<run::WishOutcome> Session::outcome(uint64_t wish) const {
  const run::PlanReviser* const reviser = executor_->reviser();
  return reviser == nullptr ? std::nullopt : reviser->outcome(wish);
}

CommunicatorView Session::view() const {
  const auto since = [now = now()](Time then) { return std::chrono::duration<double>(now - then).count(); };
  CommunicatorView view = about_;
  RankView& rank = view.ranks.front();
  rank.calls_begun = started_;
  rank.core_seconds = std::chrono::duration<double>(billed_).count();
  const run::SentBytes sent = executor_->sent_bytes();
  rank.sent_tcp_bytes = sent.tcp;
  rank.sent_shared_memory_bytes = sent.shared_memory;
  if (const run::PlanReviser* const reviser = executor_->reviser()) {
    rank.generation = reviser->generation();
    rank.reroutes = reviser->reroutes();
  }
  if (share_) {
    view.rate = share_->rate();
    view.progress = share_->progress();
  }
  rank.idle_total_seconds = std::chrono::duration<double>(idle_before_).count();
  if (calls_.empty()) {
    rank.idle_seconds = since(idle_since_);
    rank.idle_total_seconds += rank.idle_seconds;
  } else {
    const Flight& oldest = calls_.front();
    rank.call = in_words(asked_call(oldest.call.call, rules_.rank, rules_.size));
    rank.call_seconds = since(oldest.begun);
    rank.stalled_seconds = since(std::max(moved_, oldest.begun));
    rank.waiting_for = executor_->waiting_for();
  }
  return view;
}

void Session::set_terms(const Grant& grant, std::shared_ptr<CallGrants> calls) {
  grants_ = std::move(calls);
  follow(grant.plan);
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
  SessionStatus& status = rings_.status();
  status.steps.store(executor_->steps(), std::memory_order_relaxed);
  status.progress.store(executor_->progress(), std::memory_order_relaxed);
  status.waiting_for.store(executor_->waiting_for(), std::memory_order_relaxed);
  const run::SentBytes sent = executor_->sent_bytes();
  status.sent_tcp.store(sent.tcp, std::memory_order_relaxed);
  status.sent_shared_memory.store(sent.shared_memory, std::memory_order_relaxed);
  show_flags();
}

void Session::show_flags() {
  const run::PlanReviser* const reviser = executor_->reviser();
  const bool is_unsettled = reviser != nullptr && (reviser->is_unsettled() || reviser->attend_at());
  rings_.status().flags.store((is_unsettled ? SessionStatus::kIsUnsettled : 0) |
                                  (executor_->notices_last_bytes() ? SessionStatus::kNoticesLastBytes : 0),
                              std::memory_order_relaxed);
}

}  // namespace banyan::service
