#include "banyan/job/kineto/comm_operators.h"

#include <algorithm>
#include <utility>

namespace banyan::job::kineto {
namespace {

constexpr int kMostAround = 64;

bool names_backend(std::string_view name) { return name.starts_with("gloo:") || name.starts_with("nccl:"); }

}  // namespace

CommOperators::CommOperators(const RankReading& reading) : reading_(reading) {
  for (uint32_t i = 0; i < reading.event_count(); ++i) {
    if (reading.event(i).kind != Event::Kind::cpu_op) continue;
    const std::string_view name = reading.name(i);
    CommCall ignored;
    const bool bare = names_backend(name) && read_comm_name(name, ignored) == CommName::call;
    if (!bare && name != kParamComms && !name.starts_with("c10d::")) continue;
    if (bare || call_of(i)) operators_.push_back({i});
  }
  std::ranges::stable_sort(operators_, {}, [&](const Operator& each) { return reading.event(each.event).begun(); });
  for (uint32_t k = 0; k < operators_.size(); ++k) {
    const uint32_t i = operators_[k].event;
    place_[i] = k;
    if (is_param_comms(i)) pending_[reading.event(i).track].places.push_back(k);
  }
}

std::optional<CommCall> CommOperators::call_of(uint32_t operator_event) const {
  const Event& e = reading_.event(operator_event);
  std::optional<CommCall> call;
  if (e.comm != kNoIndex) call = reading_.trace.comms[e.comm];
  const uint32_t node = reading_.node(operator_event);
  if (node == HostLinks::kNone || reading_.host->nodes[node].comm == HostNode::kNone) return call;
  const CommCall& known = reading_.host->comms[reading_.host->nodes[node].comm];
  if (!call) return known;
  call->fill_from(known);
  return call;
}

void CommOperators::take(uint32_t operator_event) {
  const auto at = place_.find(operator_event);
  if (at != place_.end()) operators_[at->second].taken = true;
}

CommFacts CommOperators::facts_of(uint32_t operator_event, CommCall call) const {
  return {.event = operator_event,
          .node = reading_.node(operator_event),
          .by_host = reading_.event(operator_event).comm == kNoIndex,
          .call = std::move(call)};
}

std::optional<CommFacts> CommOperators::around(uint32_t operator_event) {
  std::optional<CommFacts> facts;
  int up = 0;
  for (uint32_t i = operator_event; i != kNoIndex && up < kMostAround; i = reading_.parents[i], ++up) {
    if (reading_.event(i).kind != Event::Kind::cpu_op) continue;
    take(i);
    std::optional<CommCall> known = call_of(i);
    if (!known) continue;
    // The innermost says it; nccl:all_reduce within record_param_comms knows less than the latter.
    if (!facts) {
      facts = facts_of(i, std::move(*known));
    } else if (is_param_comms(i) && !is_param_comms(facts->event)) {
      known->fill_from(facts->call);
      const bool by_host = facts->by_host;
      facts = facts_of(i, std::move(*known));
      facts->by_host = by_host;
    }
  }
  if (facts || !reading_.host) return facts;
  const std::vector<HostNode>& nodes = reading_.host->nodes;
  uint32_t linked = operator_event;
  for (up = 0; linked != kNoIndex && up < kMostAround && reading_.node(linked) == HostLinks::kNone; ++up) {
    linked = reading_.parents[linked];
  }
  if (linked == kNoIndex) return facts;
  for (uint32_t node = reading_.node(linked); node != HostNode::kNone && up < kMostAround; ++up) {
    if (nodes[node].comm != HostNode::kNone) {
      return CommFacts{.node = node, .by_host = true, .call = reading_.host->comms[nodes[node].comm]};
    }
    node = nodes[node].parent;
  }
  return facts;
}

void CommOperators::take_call(Operator& candidate, std::vector<CommFacts>& calls) {
  if (candidate.taken) return;
  std::optional<CommCall> call = call_of(candidate.event);
  if (!call) return;
  candidate.taken = true;
  calls.push_back(facts_of(candidate.event, std::move(*call)));
}

std::vector<CommFacts> CommOperators::gathered_before(uint32_t event) {
  std::vector<CommFacts> calls;
  const auto pending = pending_.find(reading_.event(event).track);
  if (pending == pending_.end()) return calls;
  auto& [places, next] = pending->second;
  for (; next < places.size(); ++next) {
    Operator& candidate = operators_[places[next]];
    if (reading_.event(candidate.event).start >= reading_.event(event).start) break;
    take_call(candidate, calls);
  }
  return calls;
}

std::vector<CommFacts> CommOperators::rest() {
  std::vector<CommFacts> out;
  // gloo:all_reduce has the times, the record_param_comms around it knows the size.
  for (const Operator& candidate : operators_) {
    const std::string_view name = reading_.name(candidate.event);
    if (candidate.taken || !names_backend(name)) continue;
    const uint32_t parent = reading_.parents[candidate.event];
    // nccl:all_reduce within a call that was taken.
    const auto holder = place_.find(parent);
    if (holder != place_.end() && operators_[holder->second].taken) continue;
    CommCall call;
    read_comm_name(name, call);
    bool by_host = false;
    if (const auto known = call_of(candidate.event)) {
      call.fill_from(*known);
      by_host = reading_.event(candidate.event).comm == kNoIndex;
    }
    if (const auto outer = parent == kNoIndex ? std::nullopt : around(parent)) {
      call.fill_from(outer->call);
      by_host = by_host || outer->by_host;
    }
    take(candidate.event);
    out.push_back(facts_of(candidate.event, std::move(call)));
    out.back().by_host = by_host;
  }
  // An outer one of those that are taken knows no more.
  for (Operator& candidate : operators_) take_call(candidate, out);
  std::ranges::stable_sort(out, {}, [&](const CommFacts& a) { return reading_.event(a.event).start; });
  return out;
}

}  // namespace banyan::job::kineto
