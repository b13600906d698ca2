#include "banyan/run/execute/flights.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"
#include "banyan/element/reduce.h"

namespace banyan::run {
namespace {

constexpr uint64_t kSliceBytes = 64 << 10;  // of plans that do not say

}  // namespace

Flights::Flights(RankAndSize own, const NetOptions& options, PlansInForce& plans, ChannelTransport& transport)
    : own_(own),
      options_(options),
      plans_(plans),
      pacer_([&plans](uint32_t channel, uint64_t rate) { plans.lanes()->pace(channel, rate); },
             [] { return Clock::now(); }, options_.gate.get()),
      engine_(transport, {.slice_bytes = kSliceBytes,
                          .can_rewind = plans_.may_revise(),
                          .channel =
                              [this, &transport](const LaneUse& use) {
                                return transport.channel(use.peer, plans_.present().transport_lane(use.lane));
                              },
                          .gate = plans_.can_choose_paths() ? &pacer_ : options_.gate.get()}),  // others have no rates
      unconfirmed_(options_.keeper) {}

// ---- Calls in their order ----

void Flights::start(const Call& call, const CallNumbers& numbers) {
  CHECK(flights_.size() < kMost) << "too many calls are under way";
  Flight& flight = flights_.emplace_back();
  flight.call = call;
  flight.numbers = numbers;
  flight.number = ++started_;
  try {
    keep_inputs(flight);
    begin_waiting();
  } catch (...) {
    // As if the call had not been made: the next one must not find it.
    flights_.pop_back();
    --started_;
    throw;
  }
}

// Of what the caller may change or free before the call is over: what is scaled, and counts.
void Flights::keep_inputs(Flight& flight) {
  const Call& call = flight.call;
  if (call.op == element::ReduceOp::premul_sum && reduces(call.kind)) {
    const uint64_t elements = call.send_elements(own_.rank, own_.ranks);
    flight.scaled.resize(elements * size_of(call.type));
    scale(call.type, flight.scaled.data(), call.send, elements, call.factor);
    flight.call.send = flight.scaled.data();
  }
  if (plans_.may_revise() || call.kind == OperationKind::all_to_all_v) flight.counts.keep(flight.call);
}

bool Flights::begin_waiting() {
  bool have_begun = false;
  for (Flight& flight : flights_) {
    if (flight.ticket) continue;
    // (1): while a call waits, none after it begins.
    if (are_stopped() || (!flight.counting && !plans_.prepare(flight.number, flight.call))) break;
    // Counts are exchanged first; the call itself begins when they are here.
    if (!flight.counting && plans_.present().needs_counts(flight.call)) {
      begin_counting(flight);
      have_begun = true;
    }
    if (flight.counting && !engine_.is_done(flight.counting->ticket)) break;
    begin(flight);
    have_begun = true;
  }
  return have_begun;
}

// As a call that all make at this place of the order: who makes another one is found out by it.
void Flights::begin_counting(Flight& flight) {
  const std::span<const size_t> counts = flight.call.send_counts;
  Counting& counting = flight.counting.emplace();
  try {
    counting.own.assign(counts.begin(), counts.end());
    counting.all.resize(counting.own.size() * own_.ranks);
    const Call call = plans_.present().counts_call(counting.own.data(), counting.all.data());
    std::shared_ptr<const RankPlan> plan = plans_.present().plan(call);
    if (options_.begins) options_.begins(flight.number, flight.call, plans_.present().source());
    counting.ticket = engine_.start({.plan = std::move(plan),
                                     .task = {.type = call.type, .op = call.op, .divisor = own_.ranks},
                                     .sequence = flight.number,
                                     .signature = flight.numbers,
                                     .input = std::as_bytes(std::span(counting.own)),
                                     .output = std::as_writable_bytes(std::span(counting.all))});
  } catch (...) {
    flight.counting.reset();
    throw;
  }
}

void Flights::begin(Flight& flight) {
  const Call& call = flight.call;
  std::shared_ptr<const RankPlan> plan;
  if (flight.counting) {
    plan = plans_.present().plan(call, flight.counting->all);
    pacer_.end(flight.number);  // of what was counted; the rest has a rate of its own
  } else {
    plan = plans_.present().plan(call);
    if (options_.begins) options_.begins(flight.number, call, plans_.present().source());
  }
  const size_t input_bytes = plan->input_elements * size_of(call.type);
  const size_t output_bytes = plan->output_elements * size_of(call.type);
  EngineCommand command = {.plan = std::move(plan),
                           .task = {.type = call.type, .op = call.op, .divisor = own_.ranks},
                           .sequence = flight.number,
                           .signature = flight.numbers,
                           .input = {call.send, input_bytes},
                           .output = {call.recv, output_bytes},
                           .confirms_late = is_small(call)};
  if (call.codec) {
    if (flight.codec == nullptr)
      flight.codec = std::make_unique<CodedSlices>(*call.codec, mix(mix(flight.number) + own_.rank));
    command.codec = flight.codec.get();
  }
  if (call.residual != nullptr) {
    command.residual = std::as_bytes(call.residual->kept()).first(input_bytes);
    command.lost = std::as_writable_bytes(call.residual->lost()).first(input_bytes);
  }
  flight.ticket = engine_.start(command);
}

bool Flights::progress() {
  pacer_.look_at_clock();
  // A change of plans waits for confirmations that are held; others go when their time has come.
  if (is_holding() && (plans_.changes().is_under_way() || unconfirmed_.is_due())) engine_.let_go();
  try {
    const bool moved = engine_.progress(options_.budget ? options_.budget->bytes : Engine::kNoBudget);
    forget_confirmed();
    return moved;
  } catch (const MismatchError& error) {
    throw Error(ErrorCode::mismatch,
                mismatch_message(own_.rank, record_of(error.own().signature, error.own().sequence), error.peer(),
                                 record_of(error.others().signature, error.others().sequence)));
  }
}

bool Flights::is_first_over() {
  const Flight& flight = flights_.front();
  if (are_stopped() || !flight.ticket) return false;
  if (engine_.is_done(*flight.ticket)) return true;
  if (!engine_.is_over(*flight.ticket) || !is_small(flight.call)) return false;
  // A small call is over with its result, if a copy of that can be kept until it is confirmed. If not, confirmations
  // go.
  if (unconfirmed_.has_room_for(result_bytes(flight.call))) return true;
  engine_.let_go();
  return false;
}

void Flights::end_first() {
  const Flight& flight = flights_.front();
  pacer_.end(flight.number);
  keep_result(flight);
  flights_.pop_front();
}

std::optional<uint32_t> Flights::waiting_for() const {
  for (const Engine::Waiting& waiting : engine_.waiting_for()) {
    if (!unconfirmed_.reaches(waiting.sequence) && !waiting.peers.empty()) return waiting.peers.front();
  }
  return std::nullopt;
}

PlanChanges::Calls Flights::state() const {
  const auto waiting =
      std::find_if(flights_.begin(), flights_.end(), [](const Flight& flight) { return !flight.has_begun(); });
  uint64_t confirmed = flights_.empty() ? started_ : flights_.front().number - 1;
  if (!unconfirmed_.is_empty()) confirmed = unconfirmed_.first() - 1;
  return {.begun = waiting == flights_.end() ? started_ : waiting->number - 1,
          .all_follow_plans = std::all_of(flights_.begin(), flights_.end(),
                                          [](const Flight& flight) { return flight.ticket.has_value(); }),
          .is_idle = flights_.empty(),
          .over = confirmed};
}

// ---- Calls that are over here and not confirmed ----

// True if it may be one: its result is the same on all ranks, and it is over nowhere before all have begun it. The same
// on all ranks.
bool Flights::is_small(const Call& call) const {
  const bool is_common = call.kind == OperationKind::all_reduce || call.kind == OperationKind::all_gather ||
                         call.kind == OperationKind::barrier;
  return options_.confirms_late && plans_.may_revise() && is_common && !call.codec &&
         result_bytes(call) <= UnconfirmedCalls::kMostBytes;
}

void Flights::keep_result(const Flight& flight) {
  if (engine_.is_done(*flight.ticket)) return;
  const std::byte* const result = flight.call.recv;
  // The caller gets its buffers back, so the result is copied: others may want it until the call is confirmed.
  unconfirmed_.keep({.number = flight.number,
                     .ticket = *flight.ticket,
                     .call = flight.call,
                     .numbers = flight.numbers,
                     .result = {result, result + result_bytes(flight.call)}});
  engine_.release_buffers(*flight.ticket);
}

void Flights::forget_confirmed() {
  while (const std::optional<uint64_t> number = unconfirmed_.forget_confirmed(engine_)) pacer_.end(*number);
  if (flights_.empty()) unconfirmed_.give_room_back();
}

std::optional<Flights::Clock::time_point> Flights::settles_at() const {
  if (!has_to_settle() || unconfirmed_.is_settling() || are_stopped()) return std::nullopt;
  return unconfirmed_.settles_at();
}

bool Flights::settle() {
  if (are_stopped() || !has_to_settle() || !(unconfirmed_.is_due() || plans_.changes().is_under_way())) return false;
  unconfirmed_.settle();
  engine_.let_go();
  return true;
}

void Flights::let_go_at_end() {
  if (!has_to_settle() || are_stopped()) return;
  engine_.let_go();
  engine_.progress();
}

std::optional<Flights::Clock::time_point> Flights::holds_until() const {
  return is_holding() ? std::optional(unconfirmed_.settles_at()) : std::nullopt;
}

// ---- When all ranks stop for a revision ----

size_t Flights::stop() {
  is_stopped_ = true;
  if (suspended_.empty()) suspended_ = engine_.suspend();
  keep_results_of_suspended();
  return suspended_.size();
}

// Null: its execution is done, or has not begun.
const Engine::Suspended* Flights::suspended_of(const Flight& flight) const {
  const auto found = std::find_if(suspended_.begin(), suspended_.end(),
                                  [&](const Engine::Suspended& each) { return each.ticket == flight.ticket; });
  return found == suspended_.end() ? nullptr : &*found;
}

// What a small call has got here already, others may want of this rank.
void Flights::keep_results_of_suspended() {
  for (Flight& flight : flights_) {
    if (!flight.ticket || flight.result || !is_small(flight.call)) continue;
    const Engine::Suspended* const suspended = suspended_of(flight);
    if (suspended == nullptr || !suspended->has_result) continue;
    flight.result.emplace(flight.call.recv, flight.call.recv + result_bytes(flight.call));
  }
}

// A small call with a result here is over, though its caller does not know it yet.
void Flights::report(RevisionReport& report) const {
  const auto is_open = [&](const Flight& flight) {
    return !flight.result && (!flight.ticket || suspended_of(flight) != nullptr);
  };
  const auto first_open = std::find_if(flights_.begin(), flights_.end(), is_open);
  report.over = first_open == flights_.end() ? started_ : first_open->number - 1;
  for (auto flight = first_open; flight != flights_.end(); ++flight) {
    if (!is_open(*flight)) report.also_over.push_back(flight->number);
  }
}

void Flights::restart(const RevisionDecision& decision) {
  CHECK(are_stopped()) << "calls of generation " << plans_.present().generation() << " begin again without a stop";
  pacer_.forget_all();
  // In the order of the starts (1). Calls that exchanged counts, and all after them, wait and begin as new ones.
  const uint64_t anew = first_to_begin_anew(decision);
  for (const Engine::Suspended& suspended : suspended_) restart(suspended, decision, anew);
  suspended_.clear();
  forget_confirmed();
  unconfirmed_.settle();
  for (Flight& flight : flights_) {
    if (!flight.ticket) flight.counting.reset();
  }
  is_stopped_ = false;
}

void Flights::restart(const Engine::Suspended& suspended, const RevisionDecision& decision, uint64_t anew) {
  const uint64_t number = suspended.sequence;
  if (UnconfirmedCalls::Kept* const unconfirmed = unconfirmed_.find(number)) return begin_again(*unconfirmed, decision);
  const auto flight =
      std::find_if(flights_.begin(), flights_.end(), [&](const Flight& each) { return each.number == number; });
  CHECK(flight != flights_.end()) << "call " << number << " is suspended and not in flight";
  // Calls that some ranks have over: small ones get the result of the first of these, others have it.
  if (decision.is_over(number) && is_small(flight->call)) return begin_again(*flight, decision);
  if (decision.is_over(number)) return engine_.complete(suspended.ticket);
  // All that no rank has over begin again as they were.
  if (number >= anew) {
    engine_.drop(suspended.ticket);
    flight->ticket.reset();
    return;
  }
  std::shared_ptr<const RankPlan> plan = plans_.present().plan(flight->call);
  if (options_.begins) options_.begins(number, flight->call, plans_.present().source());
  engine_.restart(suspended.ticket, std::move(plan));
}

// Where counts are exchanged first, some ranks may be through with that and others not: all exchange them again. What
// comes after that call then begins after it on all ranks, too.
uint64_t Flights::first_to_begin_anew(const RevisionDecision& decision) const {
  for (const Flight& flight : flights_) {
    if (decision.is_over(flight.number)) continue;
    if (flight.counting || plans_.present().needs_counts(flight.call)) return flight.number;
  }
  return UINT64_MAX;
}

// Of a small call that some ranks have over: all get the result of the first of them.
EngineCommand Flights::share_result(const Call& call, uint64_t number, const CallNumbers& numbers,
                                    uint32_t root) const {
  const Call share{.kind = OperationKind::broadcast,
                   .type = call.type,
                   .other = root,
                   .count = call.recv_elements(own_.rank, own_.ranks)};
  return {.plan = plans_.present().plan(share),
          .task = {.type = call.type, .op = call.op, .divisor = own_.ranks},
          .sequence = number,
          .signature = numbers,
          .confirms_late = true};
}

void Flights::begin_again(UnconfirmedCalls::Kept& call, const RevisionDecision& decision) {
  if (decision.is_over_everywhere(call.number)) return engine_.drop(call.ticket);
  EngineCommand command = share_result(call.call, call.number, call.numbers, *decision.first_over(call.number));
  const size_t unit = element::size_of(call.call.type);
  call.unused.resize(command.plan->output_elements * unit);
  command.input = std::span(call.result).first(command.plan->input_elements * unit);
  command.output = call.unused;
  shared_.fetch_add(1, std::memory_order_relaxed);
  engine_.restart(call.ticket, command);
}

// Its input is not wanted any more: somebody keeps the result until all have it.
void Flights::begin_again(Flight& flight, const RevisionDecision& decision) {
  const Call& call = flight.call;
  if (decision.is_over_everywhere(flight.number)) {
    CHECK(flight.result) << "call " << flight.number << " has no result here";
    engine_.drop(*flight.ticket);
  } else {
    EngineCommand command = share_result(call, flight.number, flight.numbers, *decision.first_over(flight.number));
    const size_t unit = element::size_of(call.type);
    if (flight.result) command.input = std::span(*flight.result).first(command.plan->input_elements * unit);
    command.output = {call.recv, command.plan->output_elements * unit};
    engine_.restart(*flight.ticket, command);
  }
  if (flight.result) std::copy(flight.result->begin(), flight.result->end(), call.recv);
}

}  // namespace banyan::run
