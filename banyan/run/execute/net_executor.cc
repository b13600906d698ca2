#include "banyan/run/execute/net_executor.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/element/reduce.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/back_off.h"

namespace banyan::run {
namespace {

constexpr uint64_t kSliceBytes = 64 << 10;  // of plans that do not say
constexpr std::chrono::milliseconds kLongestNap{50}, kLookAfter{250};

}  // namespace

NetExecutor::NetExecutor(NetPlans::Options plans, Options options)
    : rank_(plans.rank),
      ranks_(plans.ranks),
      options_(std::move(options)),
      plans_(std::move(plans)),
      transport_(options_.transport([this](uint32_t peer, uint32_t lane) { return plans_.path(peer, lane); })),
      messages_(*transport_,
                {.rank = rank_,
                 .ranks = ranks_,
                 .channel = [this](uint32_t peer) { return transport_->channel(peer, NetPlans::kMessageLane); }}),
      lanes_(transport_->lane_control()),
      pacer_([this](uint32_t channel, uint64_t bytes_per_second) { lanes_->pace(channel, bytes_per_second); }),
      engine_(*transport_, {.slice_bytes = kSliceBytes,
                            .can_rewind = plans_.may_revise(),
                            .channel =
                                [this](const LaneUse& use) {
                                  return transport_->channel(use.peer, plans_.transport_lane(use.lane));
                                },
                            .gate = can_choose_ways() ? &pacer_ : nullptr}),  // others have no rates
      talk_(rank_, ranks_, options_.tell) {}

void NetExecutor::start(const Call& call, const CallNumbers& numbers) {
  CHECK(flights_.size() < kDepth) << "too many calls are under way";
  answer_call();
  Flight& flight = flights_.emplace_back();
  flight.call = call;
  flight.numbers = numbers;
  flight.number = ++begun_;
  if (call.op == element::ReduceOp::premul_sum && reduces(call.kind)) {
    const uint64_t elements = call.send_elements(rank_, ranks_);
    flight.scaled.resize(elements * size_of(call.type));
    scale(call.type, flight.scaled.data(), call.send, elements, call.factor);
    flight.call.send = flight.scaled.data();
  }
  if (plans_.may_revise()) {
    std::span<const size_t>* const spans[] = {&flight.call.send_counts, &flight.call.send_displacements,
                                              &flight.call.recv_counts, &flight.call.recv_displacements};
    for (size_t i = 0; i < std::size(spans); ++i) {
      flight.counts[i].assign(spans[i]->begin(), spans[i]->end());
      *spans[i] = flight.counts[i];
    }
  }
  if (!is_revising()) begin(flight);  // or else when it is known by which plan
}

void NetExecutor::begin(Flight& flight) {
  const Call& call = flight.call;
  std::shared_ptr<const RankPlan> plan = plans_.plan(call);
  const size_t input_bytes = plan->input_elements * size_of(call.type);
  const size_t output_bytes = plan->output_elements * size_of(call.type);
  flight.ticket = engine_.start({.plan = std::move(plan),
                                 .task = {.type = call.type, .op = call.op, .divisor = ranks_},
                                 .sequence = flight.number,
                                 .signature = flight.numbers,
                                 .input = {call.send, input_bytes},
                                 .output = {call.recv, output_bytes}});
}

bool NetExecutor::advance() {
  if (flights_.empty()) return true;
  while (is_revising() || !engine_.is_done(*flights_.front().ticket)) {
    if (!move()) return false;
  }
  // What is on its way only while this rank sees to it must have gone before the caller turns to other things. Messages
  // may have to wait for receives that the caller has still to post.
  if (transport_->has_unsent_beside(NetPlans::kMessageLane)) {
    waiter_.wait(std::chrono::milliseconds(0));
    if (transport_->has_unsent_beside(NetPlans::kMessageLane)) return false;
  }
  pacer_.end(flights_.front().number);
  flights_.pop_front();
  rounds_in_vain_ = 0;
  ++steps_;
  note_end();
  return true;
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
  if (is_revising()) return go_on_revising();
  pacer_.look_at_clock();
  try {
    return engine_.progress();
  } catch (const MismatchError& error) {
    throw Error(ErrorCode::mismatch,
                mismatch_message(rank_, record_of(error.own().signature, error.own().sequence), error.peer(),
                                 record_of(error.others().signature, error.others().sequence)));
  } catch (const Error& error) {
    // A connection was broken off. Whether its peer is dead, the agents tell all; where it lives, others are made.
    if (error.code() != ErrorCode::peer_lost || !plans_.may_revise()) throw;
    BANYAN_LOG(info) << error.what();
    stop_for(talk_.generation() + 1);
    return true;
  }
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
    if (!waiting.peers.empty()) return waiting.peers.front();
  }
  return messages_.waiting_for().value_or(rank_);
}

uint64_t NetExecutor::start_message(const Call& call) {
  static_assert(kAnyRank == kAnyPeer);
  const size_t bytes = call.count * size_of(call.type);
  return call.kind == OperationKind::send
             ? messages_.send({.to = call.other, .tag = call.tag, .bytes = {call.send, bytes}})
             : messages_.receive({.from = call.other, .tag = call.tag, .into = {call.recv, bytes}});
}

bool NetExecutor::advance_messages(std::vector<MessageDone>& done) {
  const bool moved = messages_.advance(ended_);
  steps_ += moved ? 1 : 0;
  ended_calls_ += moved ? 1 : 0;
  for (const MessageEnd& end : ended_) done.push_back({.ticket = end.ticket, .peer = end.peer});
  ended_.clear();
  return moved;
}

void NetExecutor::sleep(const std::function<bool()>& try_again) {
  if (!try_again()) waiter_.wait(kLongestNap);
}

// ---- What to wait for ----

void NetExecutor::prepare(WaitSet& set) {
  transport_->prepare(set);
  if (can_choose_ways() && !is_revising()) set.wake_at(looked_at_ + kLookAfter);
}

bool NetExecutor::react(std::span<const pollfd> polled) {
  const bool may_move = transport_->react(polled), was_revising = is_revising();
  look_after_lanes();
  return may_move || is_revising() != was_revising;
}

// ---- When plans are revised ----

void NetExecutor::hear(const std::string& text) {
  if (talk_.hear(text)) transport_->wake();
}

void NetExecutor::propose(const FabricUpdate& wish) {
  talk_.propose(wish);
  transport_->wake();
}

void NetExecutor::attend() {
  answer_call();
  if (is_revising()) go_on_revising();
}

void NetExecutor::answer_call() {
  if (const std::optional<uint32_t> generation = talk_.called_to(is_revising())) stop_for(*generation);
}

void NetExecutor::look_after_lanes() {
  if (!can_choose_ways() || is_revising()) return;
  const Clock::time_point now = Clock::now();
  if (now - looked_at_ < kLookAfter) return;
  looked_at_ = now;
  const std::vector<LaneHealth> lanes = lanes_->health();
  const bool is_lost = std::any_of(lanes.begin(), lanes.end(), [&](const LaneHealth& lane) {
    return lane.is_lost && !plans_.cables(lane.peer, lane.lane).empty();
  });
  if (is_lost) stop_for(talk_.generation() + 1);
}

// Nothing moves any more until all have agreed on this generation.
void NetExecutor::stop_for(uint32_t generation) {
  if (!plans_.may_revise()) return;
  if (suspended_.empty()) suspended_ = engine_.suspend();
  BANYAN_LOG(info) << "plans are revised: generation " << generation << ", " << suspended_.size()
                   << (suspended_.size() == 1 ? " call waits" : " calls wait");
  ++steps_;
  talk_.report(report(generation));
}

RevisionReport NetExecutor::report(uint32_t generation) {
  RevisionReport report{.generation = generation, .over = begun_, .adopted = plans_.adopted()};
  const auto is_open = [&](const Flight& flight) {
    return !flight.ticket || std::any_of(suspended_.begin(), suspended_.end(),
                                         [&](const Engine::Suspended& each) { return each.ticket == *flight.ticket; });
  };
  const auto first_open = std::find_if(flights_.begin(), flights_.end(), is_open);
  if (first_open != flights_.end()) report.over = first_open->number - 1;
  for (auto flight = first_open; flight != flights_.end(); ++flight) {
    if (!is_open(*flight)) report.also_over.push_back(flight->number);
  }
  for (const LaneHealth& lane : health()) {
    std::vector<uint32_t> cables = plans_.cables(lane.peer, lane.lane);
    if (cables.empty()) continue;
    report.lanes.push_back({.cables = std::move(cables),
                            .is_lost = lane.is_lost,
                            .silent_ms = static_cast<uint64_t>(lane.silent.count())});
  }
  return report;
}

bool NetExecutor::go_on_revising() {
  const bool moved = talk_.has_news();
  steps_ += moved ? 1 : 0;
  const auto agreement = talk_.agreement([this](const FabricUpdate& update) { plans_.expect_possible(update); });
  if (!agreement) return moved;
  restart(agreement->decision, agreement->update);
  return true;
}

// What was made again without knowing why may fail again for the same reason; equally on all ranks.
void NetExecutor::count_vain_rounds(const RevisionDecision& decision) {
  rounds_in_vain_ = decision.has_losses || decision.has_wishes ? 0 : rounds_in_vain_ + 1;
  if (rounds_in_vain_ <= kMostRoundsInVain) return;
  throw Error(ErrorCode::io, "connections were lost " + std::to_string(rounds_in_vain_) +
                                 " times in one call, and no link that could be avoided is to blame");
}

void NetExecutor::restart(const RevisionDecision& decision, const FabricUpdate& update) {
  count_vain_rounds(decision);
  note_round();
  // All have stopped by now: nobody uses these connections any more.
  for (const LaneHealth& lane : health()) {
    if (lane.lane != NetPlans::kMessageLane) lanes_->drop(transport_->channel(lane.peer, lane.lane));
  }
  pacer_.forget_all();
  const bool is_reroute = decision.has_losses || !decision.has_wishes;
  tell_people(update, is_reroute);
  plans_.revise(update);
  for (const Engine::Suspended& suspended : suspended_) {
    if (decision.is_over(suspended.sequence)) {
      engine_.complete(suspended.ticket);
      continue;
    }
    const auto flight = std::find_if(flights_.begin(), flights_.end(),
                                     [&](const Flight& each) { return each.number == suspended.sequence; });
    CHECK(flight != flights_.end()) << "call " << suspended.sequence << " is suspended and not in flight";
    std::shared_ptr<const RankPlan> plan = plans_.plan(flight->call);
    engine_.restart(suspended.ticket, std::move(plan));
  }
  suspended_.clear();
  for (Flight& flight : flights_) {
    if (!flight.ticket) begin(flight);
  }
  if (is_reroute) reroutes_.fetch_add(1, std::memory_order_relaxed);
  adopted_.store(plans_.generation(), std::memory_order_release);
  talk_.finish();
  ++steps_;
}

void NetExecutor::tell_people(const FabricUpdate& update, bool is_reroute) const {
  if (rank_ != 0) return;
  if (!is_reroute) {
    BANYAN_LOG(info) << "plans are revised as was asked: generation " << update.generation;
    return;
  }
  std::string names;
  for (const uint32_t cable : update.lost_cables) {
    if (!plans_.adopted().lost_cables.contains(cable)) names += " " + plans_.cable_name(cable);
  }
  BANYAN_LOG(warning) << (names.empty() ? "connections were lost and made again" : "went on without lost links:")
                      << names;
}

void NetExecutor::break_with(const Error& error) {
  options_.tell_peers(error);
  transport_->wake();
}

}  // namespace banyan::run
