#include "banyan/run/net_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/element/reduce.h"
#include "banyan/run/system/patience.h"

namespace banyan {
namespace {

constexpr uint64_t kSliceBytes = 64 << 10;
constexpr std::chrono::milliseconds kLongestNap{50};
constexpr uint32_t kCallLane = 0, kMessageLane = 1, kLanes = 2;

bool follows_plan(OperationKind kind) {
  return kind == OperationKind::all_reduce || kind == OperationKind::reduce || kind == OperationKind::broadcast ||
         kind == OperationKind::all_gather || kind == OperationKind::reduce_scatter;
}

CollectiveKind collective_kind(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_reduce:
      return CollectiveKind::allreduce;
    case OperationKind::reduce:
      return CollectiveKind::reduce;
    case OperationKind::broadcast:
      return CollectiveKind::broadcast;
    case OperationKind::all_gather:
      return CollectiveKind::allgather;
    default:
      return CollectiveKind::reduce_scatter;
  }
}

}  // namespace

NetExecutor::NetExecutor(std::unique_ptr<Connector> connector, Options options)
    : options_(std::move(options)),
      transport_(std::move(connector), {.ranks = options_.ranks, .lanes = kLanes, .path = {}}),
      letters_(transport_),
      messages_(transport_),
      engine_(transport_, {.slice_bytes = kSliceBytes}),
      greetings_(options_.ranks) {}

RankProgress NetExecutor::own_progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void NetExecutor::start(const Call& call, const CallNumbers& numbers) {
  CHECK(phase_ == Phase::idle) << "a call is under way";
  call_ = call;
  {
    const std::lock_guard lock(mutex_);
    ++progress_.begun;
    progress_.last_call = numbers;
  }
  own_greeting_ = {.begun = progress_.begun, .numbers = numbers};
  if (call.op == ReduceOp::premul_sum && call.reduces()) {
    const uint64_t elements = call.send_elements(options_.rank, options_.ranks);
    scaled_.resize(elements * size_of(call.type));
    scale(call.type, scaled_.data(), call.send, elements, call.factor);
    call_.send = scaled_.data();
  }
  const uint64_t spread =
      call.kind == OperationKind::all_gather || call.kind == OperationKind::reduce_scatter ? options_.ranks : 1;
  if (follows_plan(call.kind) && call.count > 0 && options_.ranks > 1) {
    begin_plan(collective_kind(call.kind), call.count * spread);
  } else {
    follows_plan_ = false;
    peers_.clear();
    for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
      if (peer != options_.rank) peers_.push_back(peer);
    }
  }
  greet(peers_);
  phase_ = Phase::greet;
}

// ---- Who calls what ----

void NetExecutor::greet(const std::vector<uint32_t>& peers) {
  for (const uint32_t peer : peers) {
    const uint32_t channel = transport_.channel(peer, kCallLane);
    letters_.send(channel, std::as_bytes(std::span(&own_greeting_, 1)));
    letters_.receive(channel, std::as_writable_bytes(std::span(&greetings_[peer], 1)));
  }
}

void NetExecutor::read_greetings() const {
  for (const uint32_t peer : peers_) {
    if (signature_of(greetings_[peer].numbers) == signature_of(own_greeting_.numbers)) continue;
    throw Error(ErrorCode::mismatch,
                mismatch_message(options_.rank, record_of(own_greeting_.numbers, own_greeting_.begun), peer,
                                 record_of(greetings_[peer].numbers, greetings_[peer].begun)));
  }
}

// ---- By plan ----

void NetExecutor::begin_plan(CollectiveKind kind, uint64_t elements) {
  const uint64_t bytes = size_of(call_.type);
  const Schedule& schedule = options_.plans->plan(
      {.kind = kind, .root = call_.is_rooted() ? call_.other : 0, .total = Bytes(elements * bytes)});
  if (prepared_.schedule != &schedule || prepared_.elements != elements) {
    prepared_ = {.schedule = &schedule,
                 .elements = elements,
                 .plan = std::make_shared<RankPlan>(make_rank_plan(schedule, elements, options_.rank))};
  }
  follows_plan_ = true;
  peers_ = peers_of(*prepared_.plan);
}

void NetExecutor::follow_plan() {
  const uint64_t bytes = size_of(call_.type);
  const RankPlan& plan = *prepared_.plan;
  engine_.start({.plan = prepared_.plan,
                 .task = {.type = call_.type, .op = call_.op, .divisor = options_.ranks},
                 .signature = signature_of(own_greeting_.numbers),
                 .input = {call_.send, plan.input_elements * bytes},
                 .output = {call_.recv, plan.output_elements * bytes}});
}

// ---- By letters ----

uint64_t NetExecutor::offset_of(std::span<const size_t> counts, std::span<const size_t> displacements,
                                uint32_t rank) const {
  if (!displacements.empty()) return displacements[rank];
  uint64_t offset = 0;
  for (uint32_t other = 0; other < rank; ++other) offset += counts[other];
  return offset;
}

// What each rank sends to each, in bytes of the two buffers.
void NetExecutor::begin_exchange() {
  const uint64_t bytes = size_of(call_.type);
  const uint32_t me = options_.rank;
  struct Place {
    uint64_t offset = 0, count = 0;
  };
  const auto sent_to = [&](uint32_t peer) -> Place {
    switch (call_.kind) {
      case OperationKind::all_gather_v:
        return {0, call_.recv_counts[me]};
      case OperationKind::all_to_all:
        return {peer * call_.count, call_.count};
      case OperationKind::all_to_all_v:
      case OperationKind::reduce_scatter_v:
        return {offset_of(call_.send_counts, call_.send_displacements, peer), call_.send_counts[peer]};
      case OperationKind::gather:
        return {0, peer == call_.other ? call_.count : 0};
      case OperationKind::scatter:
        return {peer * call_.count, me == call_.other ? call_.count : 0};
      default:
        return {0, peer == me ? call_.count : 0};  // of one rank, or of nothing
    }
  };
  const auto received_from = [&](uint32_t peer) -> Place {
    switch (call_.kind) {
      case OperationKind::all_gather_v:
      case OperationKind::all_to_all_v:
        return {offset_of(call_.recv_counts, call_.recv_displacements, peer), call_.recv_counts[peer]};
      case OperationKind::all_to_all:
        return {peer * call_.count, call_.count};
      case OperationKind::gather:
        return {peer * call_.count, me == call_.other ? call_.count : 0};
      case OperationKind::scatter:
        return {0, peer == call_.other ? call_.count : 0};
      default:
        return {0, peer == me ? call_.count : 0};
    }
  };
  const bool reduces = call_.kind == OperationKind::reduce_scatter_v;
  const bool in_place = call_.kind == OperationKind::all_to_all && call_.send == call_.recv;
  const uint64_t own_bytes = reduces ? call_.send_counts[me] * bytes : 0;
  pieces_.resize(reduces ? own_bytes * options_.ranks : in_place ? call_.count * bytes * options_.ranks : 0);
  const std::byte* input = call_.send;
  if (in_place && !pieces_.empty()) {
    std::memcpy(pieces_.data(), call_.send, pieces_.size());
    input = pieces_.data();
  }
  for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
    const Place out = sent_to(peer), in = received_from(peer);
    std::byte* const place = reduces ? pieces_.data() + peer * own_bytes : call_.recv + in.offset * bytes;
    const uint64_t in_bytes = reduces ? own_bytes : in.count * bytes;
    if (peer == me) {
      const std::byte* const own = input + out.offset * bytes;
      if (in_bytes > 0 && own != place) std::memcpy(place, own, in_bytes);
      continue;
    }
    const uint32_t channel = transport_.channel(peer, kCallLane);
    if (out.count > 0) letters_.send(channel, {input + out.offset * bytes, out.count * bytes});
    if (in_bytes > 0) letters_.receive(channel, {place, in_bytes});
  }
}

// In the order of the ranks.
void NetExecutor::reduce_pieces() {
  const uint64_t count = call_.send_counts[options_.rank];
  std::vector<const std::byte*> sources;
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    sources.push_back(pieces_.data() + rank * count * size_of(call_.type));
  }
  const uint32_t divisor = call_.op == ReduceOp::avg ? options_.ranks : 1;
  reduce({.type = call_.type, .op = call_.op, .divisor = divisor}, call_.recv, nullptr, sources, count);
}

// ---- Going on ----

bool NetExecutor::advance() {
  switch (phase_) {
    case Phase::idle:
      return true;
    case Phase::greet:
      if (letters_.advance()) ++steps_;
      if (!letters_.is_idle()) return false;
      read_greetings();
      if (follows_plan_) {
        follow_plan();
        phase_ = Phase::follow_plan;
      } else {
        begin_exchange();
        phase_ = Phase::exchange;
      }
      ++steps_;
      return advance();
    case Phase::follow_plan:
      while (!engine_.is_idle()) {
        if (!engine_.progress()) return false;
        ++steps_;
      }
      finish_call();
      return true;
    case Phase::exchange:
      if (letters_.advance()) ++steps_;
      if (!letters_.is_idle()) return false;
      finish_call();
      return true;
  }
  return false;
}

void NetExecutor::finish_call() {
  if (call_.kind == OperationKind::reduce_scatter_v) reduce_pieces();
  phase_ = Phase::idle;
  ++steps_;
}

void NetExecutor::finish(Watch& watch) {
  Patience patience(options_.is_crowded);
  while (!advance()) {
    const uint64_t steps = steps_;
    if (patience.pause()) continue;
    watch.waiting_for(waiting_for());
    nap([&] { return advance() || steps_ != steps; });
    patience.tire();
  }
}

uint32_t NetExecutor::waiting_for() const {
  if (!letters_.is_idle()) return letters_.waiting_for() % options_.ranks;
  if (phase_ == Phase::follow_plan) {
    for (const Engine::Waiting& waiting : engine_.waiting_for()) {
      if (!waiting.peers.empty()) return waiting.peers.front();
    }
  }
  if (phase_ != Phase::idle && !peers_.empty()) return peers_.front();
  return messages_.is_idle() ? options_.rank : messages_.waiting_for() % options_.ranks;
}

uint64_t NetExecutor::start_message(const Call& call) {
  const uint32_t channel = transport_.channel(call.other, kMessageLane);
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
  if (!try_again()) transport_.wait(kLongestNap);
}

void NetExecutor::break_with(const Error& error) {
  options_.tell_peers(error);
  transport_.wake();
}

}  // namespace banyan
