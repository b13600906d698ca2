#include "banyan/run/execute/net_executor.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/element/reduce.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/patience.h"

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
      engine_(*transport_, {.slice_bytes = kSliceBytes,
                            .can_rewind = plans_.may_reroute(),
                            .channel =
                                [this](const LaneUse& use) {
                                  return transport_->channel(use.peer, plans_.transport_lane(use.lane));
                                }}),
      rerouting_(ranks_) {}

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
  if (plans_.may_reroute()) {
    std::span<const size_t>* const spans[] = {&flight.call.send_counts, &flight.call.send_displacements,
                                              &flight.call.recv_counts, &flight.call.recv_displacements};
    for (size_t i = 0; i < std::size(spans); ++i) {
      flight.counts[i].assign(spans[i]->begin(), spans[i]->end());
      *spans[i] = flight.counts[i];
    }
  }
  if (!is_rerouting()) begin(flight);  // or else when it is known which links are left
}

void NetExecutor::begin(Flight& flight) {
  const Call& call = flight.call;
  std::shared_ptr<const RankPlan> plan = plans_.plan(call);
  pace(plan);
  const size_t input_bytes = plan->input_elements * size_of(call.type);
  const size_t output_bytes = plan->output_elements * size_of(call.type);
  flight.ticket = engine_.start({.plan = std::move(plan),
                                 .task = {.type = call.type, .op = call.op, .divisor = ranks_},
                                 .sequence = flight.number,
                                 .signature = flight.numbers,
                                 .input = {call.send, input_bytes},
                                 .output = {call.recv, output_bytes}});
}

// Several calls at a time would hold each other up, so only one that is alone is paced; and what is late when the time
// is nearly over hurries.
void NetExecutor::pace(std::shared_ptr<const RankPlan> plan) {
  constexpr double kPaced = 0.85;  // of the time that the busiest link needs
  end_pacing();
  if (flights_.size() > 1) return;
  bool is_paced = false;
  for (const PlanLane& lane : plan->lanes) {
    if (lane.bytes_per_second == 0) continue;
    transport_->pace(transport_->channel(lane.peer, plans_.transport_lane(lane.lane)), lane.bytes_per_second);
    is_paced = true;
  }
  if (!is_paced) return;
  const std::chrono::duration<double> time(plan->busy_seconds * kPaced);
  paced_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  paced_ = std::move(plan);
}

void NetExecutor::end_pacing() {
  if (!paced_) return;
  for (const PlanLane& lane : paced_->lanes) {
    if (lane.bytes_per_second == 0) continue;
    transport_->pace(transport_->channel(lane.peer, plans_.transport_lane(lane.lane)), 0);
  }
  paced_.reset();
}

bool NetExecutor::advance() {
  if (flights_.empty()) return true;
  while (is_rerouting() || !engine_.is_done(*flights_.front().ticket)) {
    if (!move()) return false;
  }
  // What is on its way only while this rank sees to it must have gone before the caller turns to other things. Messages
  // may have to wait for receives that the caller has still to post.
  if (transport_->has_unsent_beside(NetPlans::kMessageLane)) {
    transport_->wait(std::chrono::milliseconds(0));
    if (transport_->has_unsent_beside(NetPlans::kMessageLane)) return false;
  }
  flights_.pop_front();
  rounds_in_vain_ = 0;
  ++steps_;
  return true;
}

// False when nothing could be moved.
bool NetExecutor::move() {
  answer_call();
  if (is_rerouting()) return go_on_after_loss();
  if (paced_ && Clock::now() >= paced_until_) end_pacing();
  try {
    return engine_.progress();
  } catch (const MismatchError& error) {
    throw Error(ErrorCode::mismatch,
                mismatch_message(rank_, record_of(error.own().signature, error.own().sequence), error.peer(),
                                 record_of(error.others().signature, error.others().sequence)));
  }
}

void NetExecutor::finish(Watch& watch) {
  Patience patience = this->patience();
  while (!advance()) {
    const uint64_t before = steps();
    if (patience.pause()) continue;
    watch.waiting_for(waiting_for());
    sleep([&] { return advance() || steps() != before; });
    patience.tire();
  }
}

uint32_t NetExecutor::waiting_for() const {
  if (is_rerouting()) return rerouting_.missing(round_).value_or(rank_);
  for (const Engine::Waiting& waiting : engine_.waiting_for()) {
    if (!waiting.peers.empty()) return waiting.peers.front();
  }
  return messages_.waiting_for().value_or(rank_);
}

uint64_t NetExecutor::start_message(const Call& call) {
  static_assert(kAnyRank == Letters::kAnyPeer);
  const size_t bytes = call.count * size_of(call.type);
  return call.kind == OperationKind::send
             ? messages_.send({.to = call.other, .tag = call.tag, .bytes = {call.send, bytes}})
             : messages_.receive({.from = call.other, .tag = call.tag, .into = {call.recv, bytes}});
}

bool NetExecutor::advance_messages(std::vector<MessageDone>& done) {
  const bool moved = messages_.advance(ended_);
  steps_ += moved ? 1 : 0;
  for (const MessageEnd& end : ended_) done.push_back({.ticket = end.ticket, .peer = end.peer});
  ended_.clear();
  return moved;
}

void NetExecutor::sleep(const std::function<bool()>& try_again) {
  if (try_again()) return;
  transport_->wait(kLongestNap);
  look_after_lanes();
}

// ---- When a link is lost ----

void NetExecutor::hear(const std::string& text) {
  if (!text.starts_with(Rerouting::kPrefix)) return;
  rerouting_.heard(text);
  is_called_.store(true, std::memory_order_release);
  transport_->wake();
}

void NetExecutor::attend() {
  answer_call();
  if (is_rerouting()) go_on_after_loss();
}

void NetExecutor::answer_call() {
  if (!is_called_.load(std::memory_order_acquire)) return;
  is_called_.store(false, std::memory_order_relaxed);
  if (const std::optional<uint32_t> round = rerouting_.called_to(round_)) stop_for(*round);
}

void NetExecutor::look_after_lanes() {
  if (!plans_.may_reroute() || is_rerouting()) return;
  const Clock::time_point now = Clock::now();
  if (now - looked_at_ < kLookAfter) return;
  looked_at_ = now;
  const std::vector<LaneHealth> lanes = transport_->health();
  const bool is_lost = std::any_of(lanes.begin(), lanes.end(), [&](const LaneHealth& lane) {
    return lane.is_lost && !plans_.cables(lane.peer, lane.lane).empty();
  });
  if (is_lost) stop_for(round_ + 1);
}

// Nothing moves any more until all have reported on this round.
void NetExecutor::stop_for(uint32_t round) {
  if (!plans_.may_reroute()) return;
  if (suspended_.empty()) suspended_ = engine_.suspend();
  round_ = round;
  RerouteReport report;
  report.round = round;
  report.rank = rank_;
  report.over = begun_;
  const auto is_open = [&](const Flight& flight) {
    return !flight.ticket || std::any_of(suspended_.begin(), suspended_.end(),
                                         [&](const Engine::Suspended& each) { return each.ticket == *flight.ticket; });
  };
  const auto first_open = std::find_if(flights_.begin(), flights_.end(), is_open);
  if (first_open != flights_.end()) report.over = first_open->number - 1;
  for (auto flight = first_open; flight != flights_.end(); ++flight) {
    if (!is_open(*flight)) report.also_over.push_back(flight->number);
  }
  for (const LaneHealth& lane : transport_->health()) {
    std::vector<uint32_t> cables = plans_.cables(lane.peer, lane.lane);
    if (cables.empty()) continue;
    report.lanes.push_back({.cables = std::move(cables),
                            .is_lost = lane.is_lost,
                            .silent_ms = static_cast<uint64_t>(lane.silent.count())});
  }
  BANYAN_LOG(info) << "a link is lost: round " << round << ", " << suspended_.size()
                   << (suspended_.size() == 1 ? " call waits" : " calls wait");
  ++steps_;
  options_.tell(report.encode());
}

bool NetExecutor::go_on_after_loss() {
  const uint64_t reports = rerouting_.count();
  const bool moved = reports != reports_seen_;
  reports_seen_ = reports;
  steps_ += moved ? 1 : 0;
  const std::optional<RerouteDecision> decision = rerouting_.decide(round_);
  if (!decision) return moved;
  restart(*decision);
  return true;
}

void NetExecutor::restart(const RerouteDecision& decision) {
  // What was made again without knowing why may fail again for the same reason; equally on all ranks.
  rounds_in_vain_ = decision.lost_cables.empty() ? rounds_in_vain_ + 1 : 0;
  if (rounds_in_vain_ > kMostRoundsInVain) {
    throw Error(ErrorCode::io, "connections were lost " + std::to_string(rounds_in_vain_) +
                                   " times in one call, and no link that could be avoided is to blame");
  }
  // All have stopped by now: nobody uses these connections any more.
  for (const LaneHealth& lane : transport_->health()) {
    if (lane.lane != NetPlans::kMessageLane) transport_->drop(transport_->channel(lane.peer, lane.lane));
  }
  paced_.reset();
  plans_.begin_round(decision.round, decision.lost_cables);
  for (const Engine::Suspended& suspended : suspended_) {
    if (decision.is_over(suspended.sequence)) {
      engine_.complete(suspended.ticket);
      continue;
    }
    const auto flight = std::find_if(flights_.begin(), flights_.end(),
                                     [&](const Flight& each) { return each.number == suspended.sequence; });
    CHECK(flight != flights_.end()) << "call " << suspended.sequence << " is suspended and not under way";
    std::shared_ptr<const RankPlan> plan = plans_.plan(flight->call);
    pace(plan);
    engine_.restart(suspended.ticket, std::move(plan));
  }
  suspended_.clear();
  for (Flight& flight : flights_) {
    if (!flight.ticket) begin(flight);
  }
  reroutes_.fetch_add(1, std::memory_order_relaxed);
  if (rank_ == 0) {
    std::string names;
    for (const uint32_t cable : decision.lost_cables) names += " " + plans_.cable_name(cable);
    BANYAN_LOG(warning) << (names.empty() ? "connections were lost and made again" : "went on without lost links:")
                        << names;
  }
  ++steps_;
}

void NetExecutor::break_with(const Error& error) {
  options_.tell_peers(error);
  transport_->wake();
}

}  // namespace banyan::run
