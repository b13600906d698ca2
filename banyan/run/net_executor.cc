#include "banyan/run/net_executor.h"

#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/element/reduce.h"
#include "banyan/run/system/patience.h"

namespace banyan {
namespace {

constexpr uint64_t kSliceBytes = 64 << 10;  // of plans that do not say
constexpr std::chrono::milliseconds kLongestNap{50};

}  // namespace

NetExecutor::NetExecutor(NetPlans::Options plans, Options options)
    : rank_(plans.rank),
      ranks_(plans.ranks),
      options_(std::move(options)),
      plans_(std::move(plans)),
      transport_(options_.transport([this](uint32_t peer, uint32_t lane) { return plans_.path(peer, lane); })),
      messages_(*transport_),
      engine_(*transport_,
              {.slice_bytes = kSliceBytes, .channel = [this](const RankPlan&, uint32_t peer, uint32_t lane) {
                 return transport_->channel(peer, lane);
               }}) {}

RankProgress NetExecutor::own_progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

uint64_t NetExecutor::oldest() const { return flights_.empty() ? own_progress().begun : flights_.front().number; }

void NetExecutor::start(const Call& call, const CallNumbers& numbers) {
  CHECK(flights_.size() < kDepth) << "too many calls are under way";
  Flight flight;
  {
    const std::lock_guard lock(mutex_);
    flight.number = ++progress_.begun;
    progress_.last_call = numbers;
  }
  const std::byte* input = call.send;
  if (call.op == ReduceOp::premul_sum && call.reduces()) {
    const uint64_t elements = call.send_elements(rank_, ranks_);
    flight.scaled.resize(elements * size_of(call.type));
    scale(call.type, flight.scaled.data(), call.send, elements, call.factor);
    input = flight.scaled.data();
  }
  std::shared_ptr<const RankPlan> plan = plans_.plan(call);
  for (const PlanLane& lane : plan->lanes) {
    if (lane.lane < NetPlans::kFirstOwnLane) continue;
    // Several calls at a time would hold each other up.
    transport_->pace(transport_->channel(lane.peer, lane.lane), flights_.empty() ? lane.bytes_per_second : 0);
  }
  const size_t input_bytes = plan->input_elements * size_of(call.type);
  const size_t output_bytes = plan->output_elements * size_of(call.type);
  flight.ticket = engine_.start({.plan = std::move(plan),
                                 .task = {.type = call.type, .op = call.op, .divisor = ranks_},
                                 .sequence = flight.number,
                                 .signature = numbers,
                                 .input = {input, input_bytes},
                                 .output = {call.recv, output_bytes}});
  flights_.push_back(std::move(flight));
}

bool NetExecutor::advance() {
  if (flights_.empty()) return true;
  try {
    while (!engine_.is_done(flights_.front().ticket)) {
      if (!engine_.progress()) return false;
    }
  } catch (const MismatchError& error) {
    throw Error(ErrorCode::mismatch,
                mismatch_message(rank_, record_of(error.own().signature, error.own().sequence), error.peer(),
                                 record_of(error.others().signature, error.others().sequence)));
  }
  flights_.pop_front();
  ++steps_;
  return true;
}

void NetExecutor::finish(Watch& watch) {
  Patience patience(options_.is_crowded);
  while (!advance()) {
    const uint64_t before = steps();
    if (patience.pause()) continue;
    watch.waiting_for(waiting_for());
    nap([&] { return advance() || steps() != before; });
    patience.tire();
  }
}

uint32_t NetExecutor::waiting_for() const {
  for (const Engine::Waiting& waiting : engine_.waiting_for()) {
    if (!waiting.peers.empty()) return waiting.peers.front();
  }
  return messages_.is_idle() ? rank_ : messages_.waiting_for() % ranks_;
}

uint64_t NetExecutor::start_message(const Call& call) {
  const uint32_t channel = transport_->channel(call.other, NetPlans::kMessageLane);
  const size_t bytes = call.count * size_of(call.type);
  return call.kind == OperationKind::send ? messages_.send(channel, {call.send, bytes})
                                          : messages_.receive(channel, {call.recv, bytes});
}

bool NetExecutor::advance_messages() {
  const bool moved = messages_.advance();
  steps_ += moved ? 1 : 0;
  return moved;
}

void NetExecutor::nap(const std::function<bool()>& try_again) {
  if (!try_again()) transport_->wait(kLongestNap);
}

void NetExecutor::break_with(const Error& error) {
  options_.tell_peers(error);
  transport_->wake();
}

}  // namespace banyan
