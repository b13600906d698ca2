#include "banyan/run/execute/net_executor.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"
#include "banyan/element/reduce.h"
#include "banyan/run/execute/message_words.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/back_off.h"

namespace banyan::run {
namespace {

constexpr uint64_t kSliceBytes = 64 << 10;  // of plans that do not say
constexpr std::chrono::milliseconds kLongestNap{50};
}  // namespace

NetExecutor::NetExecutor(NetPlans::Options plans, Options options)
    : rank_(plans.rank),
      ranks_(plans.ranks),
      options_(std::move(options)),
      plans_(std::make_shared<NetPlans>(std::move(plans))),
      may_revise_(plans_->may_revise()),
      message_plans_(plans_),
      transport_(options_.transport([this](uint32_t peer, uint32_t lane) {
        const NetPlans* const with = plans_with(lane);
        return with == nullptr ? Path() : with->path(peer, lane);
      })),
      wake_(std::make_shared<LastingWake>([this] { transport_->wake(); })),
      lanes_(transport_->lane_control()),
      streams_(*transport_, {.rank = rank_,
                             .ranks = ranks_,
                             .channel = [this](uint32_t peer) { return transport_->channel(peer, message_lane()); },
                             .control = can_make_lanes_again() ? lanes_ : nullptr,
                             .is_gone = options_.is_gone}),
      messages_(streams_, {.rank = rank_,
                           .ranks = ranks_,
                           .keeper = options_.keeper,
                           .budget = options_.budget,
                           .words = message_words}),
      pacer_([this](uint32_t channel, uint64_t bytes_per_second) { lanes_->pace(channel, bytes_per_second); }),
      gates_(options_.gate.get(), can_choose_ways() ? &pacer_ : nullptr),  // others have no rates
      engine_(*transport_, {.slice_bytes = kSliceBytes,
                            .can_rewind = may_revise_,
                            .channel =
                                [this](const LaneUse& use) {
                                  return transport_->channel(use.peer, plans_->transport_lane(use.lane));
                                },
                            .gate = options_.gate || can_choose_ways() ? &gates_ : nullptr}),
      unconfirmed_(options_.keeper),
      ahead_(options_.background, [wake = wake_] { wake->wake(); }),
      changes_({.rank = rank_,
                .ranks = ranks_,
                .tell = options_.tell,
                .background = options_.background,
                .wake = [wake = wake_] { wake->wake(); },
                .connects =
                    [this](uint32_t peer, uint32_t lane) {
                      return lanes_ == nullptr || transport_->listen(transport_->channel(peer, lane));
                    }}),
      talk_(rank_, ranks_, options_.tell) {
  // What the ranks say about lost links goes these ways, too: also between two that exchange no data.
  for (uint32_t peer = 0; peer < ranks_ && lanes_ != nullptr; ++peer) {
    for (const Path& path : plans_->separate_paths(peer)) lanes_->tell_path(peer, path);
  }
}

NetExecutor::~NetExecutor() {
  wake_->end();
  if (has_to_settle() && !is_revising()) {
    try {
      engine_.let_go();
      engine_.progress();
    } catch (...) {  // no connection, or no memory: whoever wants it finds that out
    }
  }
  const bool is_over = flights_.empty() && !messages_.is_sending();
  if (options_.abandons && lanes_ != nullptr && !is_over) lanes_->abandon();
}

// Null: none that is still known.
const NetPlans* NetExecutor::plans_with(uint32_t transport_lane) const {
  const NetPlans* const known[] = {plans_.get(), changes_.next(), old_.get(), message_plans_.get()};
  for (const NetPlans* const plans : known) {
    if (plans != nullptr && plans->has(transport_lane)) return plans;
  }
  return nullptr;
}

std::vector<uint32_t> NetExecutor::cables_of(uint32_t peer, uint32_t lane) const {
  const NetPlans* const plans = plans_with(lane);
  return plans == nullptr ? std::vector<uint32_t>() : plans->cables(peer, lane);
}

std::vector<NetExecutor::LaneOnCables> NetExecutor::loads() const {
  std::vector<LaneOnCables> all;
  if (lanes_ == nullptr) return all;
  for (const LaneLoad& load : lanes_->loads()) {
    all.push_back({.load = load, .cables = cables_of(load.peer, load.lane)});
  }
  return all;
}

void NetExecutor::start(const Call& call, const CallNumbers& numbers) {
  CHECK(flights_.size() < kDepth) << "too many calls are under way";
  answer_call();
  Flight& flight = flights_.emplace_back();
  flight.call = call;
  flight.numbers = numbers;
  flight.number = ++begun_;
  try {
    keep_inputs(flight);
    begin_waiting();
  } catch (...) {
    // As if the call had not been made: the next one must not find it.
    flights_.pop_back();
    --begun_;
    throw;
  }
}

// Of what the caller may change or free before the call is over: what is scaled, and counts.
void NetExecutor::keep_inputs(Flight& flight) {
  const Call& call = flight.call;
  if (call.op == element::ReduceOp::premul_sum && reduces(call.kind)) {
    const uint64_t elements = call.send_elements(rank_, ranks_);
    flight.scaled.resize(elements * size_of(call.type));
    scale(call.type, flight.scaled.data(), call.send, elements, call.factor);
    flight.call.send = flight.scaled.data();
  }
  if (may_revise_ || call.kind == OperationKind::all_to_all_v) flight.counts.keep(flight.call);
}

// Those that do not follow a plan yet, in their order. Whether any began.
bool NetExecutor::begin_waiting() {
  bool have_begun = false;
  for (Flight& flight : flights_) {
    if (flight.ticket) continue;
    if (is_revising() || (!flight.counting && !can_begin(flight))) break;
    if (!flight.counting && plans_->needs_counts(flight.call)) {
      begin_counting(flight);
      have_begun = true;
    }
    // Executions begin in the same order everywhere: later calls wait, too.
    if (flight.counting && !engine_.is_done(flight.counting->ticket)) break;
    begin(flight);
    have_begun = true;
  }
  return have_begun;
}

// Whether it is known by which plan, and the plan is made.
bool NetExecutor::can_begin(const Flight& flight) {
  if (changes_.must_go_over(flight.number)) go_over();
  if (!changes_.may_begin(flight.number) || !is_ready(flight.call)) return false;
  return !plans_->needs_counts(flight.call) || is_ready(plans_->counts_call(nullptr, nullptr));
}

bool NetExecutor::is_ready(const Call& call) {
  const std::optional<PlanSource::Question> question = plans_->question(call);
  return !question || ahead_.is_ready(plans_->source(), *question);
}

// As a call that all make at this place of the order: who makes another one is found out by it.
void NetExecutor::begin_counting(Flight& flight) {
  const std::span<const size_t> counts = flight.call.send_counts;
  Counting& counting = flight.counting.emplace();
  try {
    counting.own.assign(counts.begin(), counts.end());
    counting.all.resize(counting.own.size() * ranks_);
    const Call call = plans_->counts_call(counting.own.data(), counting.all.data());
    std::shared_ptr<const RankPlan> plan = plans_->plan(call);
    if (options_.begins) options_.begins(flight.number, flight.call, plans_->source());
    counting.ticket = engine_.start({.plan = std::move(plan),
                                     .task = {.type = call.type, .op = call.op, .divisor = ranks_},
                                     .sequence = flight.number,
                                     .signature = flight.numbers,
                                     .input = std::as_bytes(std::span(counting.own)),
                                     .output = std::as_writable_bytes(std::span(counting.all))});
  } catch (...) {
    flight.counting.reset();
    throw;
  }
}

void NetExecutor::begin(Flight& flight) {
  const Call& call = flight.call;
  std::shared_ptr<const RankPlan> plan;
  if (flight.counting) {
    plan = plans_->plan(call, flight.counting->all);
    pacer_.end(flight.number);  // of what was counted; the rest has a rate of its own
  } else {
    plan = plans_->plan(call);
    if (options_.begins) options_.begins(flight.number, call, plans_->source());
  }
  const size_t input_bytes = plan->input_elements * size_of(call.type);
  const size_t output_bytes = plan->output_elements * size_of(call.type);
  EngineCommand command = {.plan = std::move(plan),
                           .task = {.type = call.type, .op = call.op, .divisor = ranks_},
                           .sequence = flight.number,
                           .signature = flight.numbers,
                           .input = {call.send, input_bytes},
                           .output = {call.recv, output_bytes},
                           .confirms_late = is_small(call)};
  if (call.codec) {
    if (flight.codec == nullptr)
      flight.codec = std::make_unique<CodedSlices>(*call.codec, mix(mix(flight.number) + rank_));
    command.codec = flight.codec.get();
  }
  if (call.residual != nullptr) {
    command.residual = std::as_bytes(call.residual->kept()).first(input_bytes);
    command.lost = std::as_writable_bytes(call.residual->lost()).first(input_bytes);
  }
  flight.ticket = engine_.start(command);
}

bool NetExecutor::advance() {
  waits_for_peers_ = false;
  if (flights_.empty()) return true;
  while (!is_over(flights_.front())) {
    if (!move()) return false;
    if (options_.budget && !is_over(flights_.front())) return false;
  }
  // What is on its way only while this rank sees to it must have gone before the caller turns to other things. Messages
  // may have to wait for receives that the caller has still to post. What has not gone may be of later calls, which a
  // peer takes only when this rank takes what that has sent it.
  try {
    if (transport_->has_unsent_but(NetPlans::is_for_messages)) {
      waiter_.wait(std::chrono::milliseconds(0));
      if (transport_->has_unsent_but(NetPlans::is_for_messages)) {
        move();
        return false;
      }
    }
  } catch (const Error& error) {
    if (!makes_lanes_again(error)) throw;
    return false;
  }
  pacer_.end(flights_.front().number);
  keep_result(flights_.front());
  flights_.pop_front();
  rounds_in_vain_ = 0;
  ++steps_;
  note_end();
  return true;
}

// ---- Calls that are over before they are confirmed ----

// Whether it may be one: its result is the same on all ranks, and it is over nowhere before all have begun it. The same
// on all ranks.
bool NetExecutor::is_small(const Call& call) const {
  const bool is_common = call.kind == OperationKind::all_reduce || call.kind == OperationKind::all_gather ||
                         call.kind == OperationKind::barrier;
  return options_.confirms_late && may_revise_ && is_common && !call.codec &&
         result_bytes(call) <= UnconfirmedCalls::kMostBytes;
}

bool NetExecutor::is_over(const Flight& flight) {
  if (is_revising() || !flight.ticket) return false;
  if (engine_.is_done(*flight.ticket)) return true;
  if (!engine_.is_over(*flight.ticket) || !is_small(flight.call)) return false;
  if (unconfirmed_.has_room_for(result_bytes(flight.call))) return true;
  engine_.let_go();
  return false;
}

void NetExecutor::keep_result(const Flight& flight) {
  if (engine_.is_done(*flight.ticket)) return;
  const std::byte* const result = flight.call.recv;
  unconfirmed_.keep({.number = flight.number,
                     .ticket = *flight.ticket,
                     .call = flight.call,
                     .numbers = flight.numbers,
                     .result = {result, result + result_bytes(flight.call)}});
  engine_.release_buffers(*flight.ticket);
}

void NetExecutor::forget_confirmed() {
  while (const std::optional<uint64_t> number = unconfirmed_.forget_confirmed(engine_)) pacer_.end(*number);
  if (flights_.empty()) unconfirmed_.give_room_back();
}

bool NetExecutor::is_unsettled() const {
  const bool is_confirming = (unconfirmed_.is_settling() || is_revising()) && has_to_settle();
  return is_confirming || streams_.is_renewing() || changes_.is_preparing();
}

std::optional<NetExecutor::Clock::time_point> NetExecutor::attend_at() const {
  if (!has_to_settle() || unconfirmed_.is_settling() || is_revising()) return std::nullopt;
  return unconfirmed_.settles_at();
}

// When no call is under way, whose steps would do it. Whether anything moved.
bool NetExecutor::settle() {
  if (is_revising() || !has_to_settle() || !(unconfirmed_.is_due() || changes_.is_under_way())) return false;
  unconfirmed_.settle();
  engine_.let_go();
  return progress_engine();
}

void NetExecutor::note_end() {
  ended_calls_ = progress() + 1;
  farthest_ = 0;
  round_begin_ = engine_.steps();
}

void NetExecutor::note_round() {
  farthest_ = std::max(farthest_, engine_.steps() - round_begin_);
  round_begin_ = engine_.steps();
}

// False when nothing could be moved.
bool NetExecutor::move() {
  answer_call();
  if (broken_since_ && !is_revising()) look_after_messages();
  if (is_revising()) return go_on_revising();
  const bool have_begun = change_plans() || begin_waiting();
  pacer_.look_at_clock();
  const bool have_messages = streams_.advance();  // who waits for them may not come to this call before it has them
  if (is_holding() && (changes_.is_under_way() || unconfirmed_.is_due())) engine_.let_go();
  const bool has_progressed = progress_engine();
  waits_for_peers_ = !have_messages && !is_revising() && engine_.waits_for_peers();
  return has_progressed || have_messages || have_begun;
}

bool NetExecutor::progress_engine() {
  try {
    const bool moved = engine_.progress(options_.budget ? options_.budget->bytes : Engine::kNoBudget);
    forget_confirmed();
    return moved;
  } catch (const MismatchError& error) {
    throw Error(ErrorCode::mismatch,
                mismatch_message(rank_, record_of(error.own().signature, error.own().sequence), error.peer(),
                                 record_of(error.others().signature, error.others().sequence)));
  } catch (const Error& error) {
    if (!makes_lanes_again(error)) throw;
    return true;
  }
}

// When a connection was broken off. Whether its peer is dead, the agents tell all; where it lives, others are made.
bool NetExecutor::makes_lanes_again(const Error& error) {
  if (error.code() != ErrorCode::peer_lost || !can_make_lanes_again()) return false;
  BANYAN_LOG(info) << error.what();
  if (!is_revising()) stop_for(next_generation());
  return true;
}

void NetExecutor::finish(Watch& watch) {
  BackOff back_off = this->back_off();
  while (!advance()) {
    const uint64_t before = steps();
    if (back_off.pause()) continue;
    watch.waiting_for(waiting_for());
    sleep([&] { return advance() || steps() != before; });
    watch.woke();
    back_off.slept();
  }
}

uint32_t NetExecutor::waiting_for() const {
  if (is_revising()) return talk_.missing().value_or(rank_);
  for (const Engine::Waiting& waiting : engine_.waiting_for()) {
    if (!unconfirmed_.reaches(waiting.sequence) && !waiting.peers.empty()) return waiting.peers.front();
  }
  return messages_.waiting_for().value_or(rank_);
}

uint64_t NetExecutor::start_message(const Call& call) {
  static_assert(kAnyRank == kAnyPeer);
  const size_t bytes = call.count * size_of(call.type);
  const auto type = static_cast<uint8_t>(call.type);
  return call.kind == OperationKind::send
             ? messages_.send({.to = call.other, .tag = call.tag, .bytes = {call.send, bytes}, .type = type})
             : messages_.receive({.from = call.other, .tag = call.tag, .into = {call.recv, bytes}, .type = type});
}

bool NetExecutor::advance_messages(std::vector<MessageDone>& done) {
  const bool moved = move_messages();
  steps_ += moved ? 1 : 0;
  ended_calls_ += moved ? 1 : 0;
  for (const MessageEnd& end : ended_) done.push_back({.ticket = end.ticket, .peer = end.peer});
  ended_.clear();
  return moved;
}

bool NetExecutor::move_messages() {
  answer_call();
  if (is_revising()) return flights_.empty() && go_on_revising();  // else advance() does
  const bool has_changed = flights_.empty() && change_plans();
  const bool moved = streams_.advance() || has_changed;
  const bool have_moved = messages_.advance(ended_);
  look_after_messages();
  return moved || have_moved;
}

// Whoever leaves may reset connections, and says so over another one a little later.
void NetExecutor::look_after_messages() {
  constexpr std::chrono::milliseconds kGoodBye{50};
  if (!streams_.needs_renewal()) return broken_since_.reset();
  const Clock::time_point now = Clock::now();
  if (!broken_since_) broken_since_ = now;
  if (now - *broken_since_ < kGoodBye) return;
  broken_since_.reset();
  BANYAN_LOG(info) << "a connection that carries messages was lost";
  stop_for(next_generation());
}

void NetExecutor::sleep(const std::function<bool()>& try_again) {
  if (!try_again()) waiter_.wait(kLongestNap);
}

// ---- What to wait for ----

void NetExecutor::prepare(WaitSet& set) {
  transport_->prepare(set);
  if (agreement_) set.wake_at(restart_at_);
  if (is_holding()) set.wake_at(unconfirmed_.settles_at());
  if (can_make_lanes_again() && !is_revising()) set.wake_at(looked_at_ + kLookAfter);
}

bool NetExecutor::react(std::span<const pollfd> polled) {
  const bool may_move = transport_->react(polled), was_revising = is_revising();
  look_after_lanes();
  if (is_holding() && unconfirmed_.is_due()) return true;
  return may_move || is_revising() != was_revising || agreement_.has_value();
}

void NetExecutor::break_with(const Error& error) {
  options_.tell_peers(error);
  transport_->wake();
}

}  // namespace banyan::run
