#include "banyan/service/session/session_calls.h"

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/run/call/operation.h"
#include "banyan/run/record/log.h"

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

SessionCalls::SessionCalls(Options options, run::Executor& executor, SessionShare* share)
    : rules_(options.rules),
      memory_(std::move(options.memory)),
      rings_(*options.page),
      regions_(*options.regions),
      grants_(std::move(options.grants)),
      account_(std::move(options.account)),
      name_(std::move(options.name)),
      executor_(executor),
      share_(share),
      idle_since_(now()) {}

bool SessionCalls::waits_for_others() const {
  const bool is_quiet = messages_.empty() && rings_.kept() == 0 && has_taken_all_;
  return is_quiet && (calls_.empty() || executor_.waits_for_peers());
}

// A client that reads no completions, or has very many messages under way, finds its ring full and waits.
bool SessionCalls::has_room() const {
  if (rings_.kept() >= kMostUnread || messages_.size() >= kMostMessages) return false;
  return messages_.size() < kOwnMessages || !account_ || account_->has_room(Resource::messages, 1);
}

// What it costs the daemon beside its time. Throws Error{unsupported} when that is more than its user may have.
TenantAccount::Charge SessionCalls::charge_for(const run::Call& call) const {
  if (!account_) return {};
  if (run::is_message(call.kind)) {
    return messages_.size() < kOwnMessages ? TenantAccount::Charge() : account_->take(Resource::messages, 1);
  }
  const uint64_t copied = copied_bytes(call, rules_.rank, rules_.size);
  return copied == 0 ? TenantAccount::Charge() : account_->take(Resource::kept_bytes, copied);
}

bool SessionCalls::take(size_t most) {
  bool moved = false;
  has_taken_all_ = false;  // nobody has looked, where there is no room
  for (size_t taken = 0; taken < most && has_room(); ++taken) {
    const std::optional<Submission> submission = rings_.take();
    has_taken_all_ = !submission;
    if (has_taken_all_) break;
    moved = true;
    // The client writes submissions as it likes: nothing of one is used before it has been checked.
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
const Grant* SessionCalls::permit(const run::Call& call) {
  if (!grants_) return nullptr;
  const AskedCall asked = asked_call(call, rules_.rank, rules_.size);
  const auto [grant, is_new] = grants_->of(asked);
  if (grant.logs && is_new) {
    BANYAN_LOG(info) << "rule " << in_quotes(grant.rule) << ": " << in_quotes(name_) << ", rank " << rules_.rank
                     << " begins the first " << in_words(asked) << " or the like";
  }
  if (!grant.denial) return &grant;
  throw Error(ErrorCode::invalid_usage, "the rules of the service deny this call (" + in_words(asked) +
                                            "): " + *grant.denial + " (rule " + in_quotes(grant.rule) + ")");
}

void SessionCalls::begin(ValidCall call, uint64_t sequence) {
  // The rules come first, then the quota: a call that either refuses has cost nothing.
  const Grant* const grant = permit(call.call);
  is_quick_ = call.bytes < kLarge;
  TenantAccount::Charge charge = charge_for(call.call);
  if (run::is_message(call.call.kind)) {
    begin_message({.sequence = sequence, .call = std::move(call), .charge = std::move(charge)});
    return;
  }
  if (calls_.size() >= executor_.depth()) {
    throw Error(ErrorCode::invalid_input,
                "the service refuses a call: " + std::to_string(executor_.depth()) + " are under way already");
  }
  // It is under way here before the executor hears of it, which may begin it at once.
  if (calls_.empty()) idle_before_ += now() - idle_since_;
  Flight& flight = calls_.emplace_back(
      Flight{.sequence = sequence, .call = std::move(call), .begun = now(), .charge = std::move(charge)});
  flight.number = ++begun_;
  if (share_ != nullptr && grant != nullptr) share_->expect(flight.number, *grant);
  executor_.start(flight.call.call, numbers_of(flight.call.call));
}

// It is in its place when the executor sees it, and what it is found by is known only afterwards.
void SessionCalls::begin_message(Flight started) {
  decltype(messages_) one;
  Flight& flight = one[0];
  flight = std::move(started);
  const uint64_t ticket = executor_.start_message(flight.call.call);
  auto node = one.extract(one.begin());
  node.key() = ticket;
  CHECK(messages_.insert(std::move(node)).inserted) << "ticket " << ticket;
}

bool SessionCalls::advance() {
  const uint64_t steps = executor_.steps();
  bool moved = false;
  // Calls end in the order in which they began; messages in any.
  while (!calls_.empty() && executor_.advance()) {
    CHECK(calls_.front().number == begun_ - calls_.size() + 1) << calls_.front().number << " of " << begun_;
    end(calls_.front(), 0);
    if (share_ != nullptr) share_->end(calls_.front().number);
    calls_.pop_front();
    if (calls_.empty()) idle_since_ = now();
    moved = true;
  }
  if (!messages_.empty()) {
    done_.clear();
    moved |= executor_.advance_messages(done_);
    for (const auto& done : done_) {
      const auto flight = messages_.find(done.ticket);
      CHECK(flight != messages_.end()) << "ticket " << done.ticket;
      end(flight->second, done.peer);
      ++messages_over_;
      messages_.erase(flight);
    }
  }
  return moved || executor_.steps() != steps;
}

void SessionCalls::end(const Flight& flight, uint32_t peer) {
  payload_bytes_ += payload_of(flight.call.call, rules_.rank, rules_.size);
  rings_.keep({.sequence = flight.sequence, .peer = peer});
}

void SessionCalls::describe(RankView& rank, Time moved) const {
  const auto seconds = [](Time time) { return std::chrono::duration<double>(time).count(); };
  const Time time = now();
  rank.calls_begun = begun_;
  rank.calls_over = begun_ - calls_.size();
  rank.messages_over = messages_over_;
  rank.payload_bytes = payload_bytes_;
  rank.idle_total_seconds = seconds(idle_before_);
  if (calls_.empty()) {
    rank.idle_seconds = seconds(time - idle_since_);
    rank.idle_total_seconds += rank.idle_seconds;
  } else {
    const Flight& oldest = calls_.front();
    rank.call = in_words(asked_call(oldest.call.call, rules_.rank, rules_.size));
    rank.call_seconds = seconds(time - oldest.begun);
    rank.stalled_seconds = seconds(time - std::max(moved, oldest.begun));
    rank.waiting_for = executor_.waiting_for();
  }
}

}  // namespace banyan::service
