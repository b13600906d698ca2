#include "banyan/predict/schedule_simulation.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "banyan/base/check.h"

namespace banyan {
namespace {

constexpr uint64_t kMessagesBetweenLooks = 4096;

// Carries out one TransferGraph.
class Run {
 public:
  Run(const TransferGraph& graph, const ScheduleSimulationOptions& options)
      : graph_(graph),
        observer_(options.observer),
        network_(std::vector<double>(graph.capacities().begin(), graph.capacities().end()), {.window = options.window}),
        states_(graph.transfers().size()) {
    list_dependents();
    for (const FoldedTransfer& transfer : graph.transfers()) {
      if (transfer.stands_for > 0) slices_left_ += transfer.slices;
    }
    slices_ = slices_left_;
  }

  // Returns whether it came to its end.
  bool carry_out() {
    for (uint32_t t = 0; t < states_.size(); ++t) {
      states_[t].missing = static_cast<uint32_t>(graph_.needs(t).size());
      if (states_[t].missing == 0) states_[t].ready = graph_.transfers()[t].slices;
    }
    for (uint32_t t = 0; t < states_.size(); ++t) go_on(t);
    while (slices_left_ > 0) {
      const Picoseconds next_arrival = arrivals_.empty() ? FluidNetwork::kNever : arrivals_.front().first;
      const Picoseconds time = std::min(network_.next(), next_arrival);
      CHECK(time < FluidNetwork::kNever) << slices_left_ << " slices never arrive; at " << network_.now().count()
                                         << " ps";
      sent_.clear();
      for (const FluidEnd& end : network_.advance(time)) sent_.push_back(static_cast<uint32_t>(end.tag));
      for (const uint32_t transfer : sent_) message_sent(transfer);
      while (!arrivals_.empty() && arrivals_.front().first == time) {
        std::pop_heap(arrivals_.begin(), arrivals_.end(), std::greater<>());
        const uint32_t transfer = arrivals_.back().second;
        arrivals_.pop_back();
        arrive(transfer);
      }
      if (observer_ != nullptr && slices_ - slices_left_ > next_look_ && !look()) return false;
    }
    return true;
  }

  FluidNetwork& network() { return network_; }
  uint64_t messages_done() const { return slices_ - slices_left_; }

 private:
  struct State {
    uint32_t sent = 0;     // slices that have left, or are leaving
    uint32_t arrived = 0;  // slices that are there
    uint32_t ready = 0;    // slices that may be sent
    uint32_t missing = 0;  // of those it needs, how many have not delivered slice `ready`
    bool is_sending = false;
  };

  void list_dependents() {
    const uint32_t count = static_cast<uint32_t>(graph_.transfers().size());
    dependents_start_.assign(count + 1, 0);
    for (uint32_t t = 0; t < count; ++t) {
      for (const uint32_t needed : graph_.needs(t)) ++dependents_start_[needed + 1];
    }
    for (uint32_t t = 0; t < count; ++t) dependents_start_[t + 1] += dependents_start_[t];
    dependents_.resize(dependents_start_[count]);
    std::vector<uint64_t> at(dependents_start_.begin(), dependents_start_.end() - 1);
    for (uint32_t t = 0; t < count; ++t) {
      for (const uint32_t needed : graph_.needs(t)) dependents_[at[needed]++] = t;
    }
  }

  // Sends the next slice if it may.
  void go_on(uint32_t t) {
    State& state = states_[t];
    const FoldedTransfer& transfer = graph_.transfers()[t];
    if (transfer.stands_for == 0) {  // a joint: its slices are there as soon as they are ready
      while (state.arrived < state.ready) arrive(t);
      return;
    }
    if (state.is_sending || state.sent == state.ready) return;
    state.is_sending = true;
    ++state.sent;
    network_.start({.hops = graph_.hops(t), .bytes = transfer.bytes, .latency = transfer.alpha, .tag = t});
  }

  void message_sent(uint32_t t) {
    states_[t].is_sending = false;
    const Picoseconds delay = graph_.transfers()[t].delay;
    if (delay == Picoseconds(0)) {
      arrive(t);
    } else {
      arrivals_.emplace_back(network_.now() + delay, t);
      std::push_heap(arrivals_.begin(), arrivals_.end(), std::greater<>());
    }
    go_on(t);
  }

  void arrive(uint32_t t) {
    const uint32_t arrived = ++states_[t].arrived;
    if (graph_.transfers()[t].stands_for > 0) --slices_left_;
    for (uint64_t d = dependents_start_[t]; d < dependents_start_[t + 1]; ++d) {
      State& dependent = states_[dependents_[d]];
      if (dependent.ready + 1 != arrived || --dependent.missing > 0) continue;
      make_ready(dependents_[d]);
      go_on(dependents_[d]);
    }
  }

  // As many slices as all that it needs have delivered.
  void make_ready(uint32_t t) {
    State& state = states_[t];
    uint32_t least = UINT32_MAX;
    for (const uint32_t needed : graph_.needs(t)) least = std::min(least, states_[needed].arrived);
    state.ready = least;
    for (const uint32_t needed : graph_.needs(t)) state.missing += states_[needed].arrived == least;
  }

  bool look() {
    next_look_ = slices_ - slices_left_ + kMessagesBetweenLooks;
    observer_->progress(1 - static_cast<double>(slices_left_) / static_cast<double>(slices_), network_.now());
    return !observer_->stop();
  }

  const TransferGraph& graph_;
  SimulationObserver* observer_;
  FluidNetwork network_;
  std::vector<State> states_;
  std::vector<uint64_t> dependents_start_;
  std::vector<uint32_t> dependents_;
  std::vector<uint32_t> sent_;
  std::vector<std::pair<Picoseconds, uint32_t>> arrivals_;  // a heap of slices on their last way
  uint64_t slices_ = 0, slices_left_ = 0, next_look_ = 0;
};

}  // namespace

double busbw_factor(CollectiveKind kind, size_t participants) {
  const double n = static_cast<double>(participants);
  switch (kind) {
    case CollectiveKind::allreduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::allgather:
    case CollectiveKind::reduce_scatter:
      return (n - 1) / n;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
      return 1;
  }
  return 1;
}

std::vector<uint64_t> exact_link_bytes(const Schedule& schedule, uint64_t elements, uint64_t element_bytes) {
  std::vector<uint64_t> bytes(schedule.fabric().links().size());
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    const auto [begin, end] = schedule.element_range(i, elements);
    for (const std::span<const RouteId> tree : {chunk.in_tree, chunk.out_tree}) {
      for (const RouteId edge : tree) {
        for (const LinkId link : schedule.route(edge).links) bytes[index(link)] += (end - begin) * element_bytes;
      }
    }
  }
  return bytes;
}

ScheduleSimulation simulate_schedule(const Schedule& schedule, const ScheduleSimulationOptions& options) {
  const TransferGraph graph = TransferGraph::of(
      schedule, {.total = options.total, .slice = options.slice, .alpha = options.alpha, .fold = options.fold});
  Run run(graph, options);
  ScheduleSimulation result;
  result.complete = run.carry_out();
  FluidNetwork& network = run.network();
  result.time = network.now();
  if (result.time > Picoseconds(0)) {
    result.algbw = static_cast<double>(options.total.count()) / (static_cast<double>(result.time.count()) * 1e-12);
    result.busbw =
        result.algbw * busbw_factor(schedule.collective().kind(), schedule.collective().participants().size());
  }
  for (const uint32_t kind : graph.kind_of_link()) {
    result.link_bytes.push_back(kind == TransferGraph::kUnused ? 0 : network.bytes_carried(kind));
    result.link_full.push_back(kind == TransferGraph::kUnused ? Picoseconds(0) : network.time_full(kind));
  }
  for (const FoldedTransfer& transfer : graph.transfers()) result.messages += transfer.stands_for * transfer.slices;
  result.messages_simulated = run.messages_done();
  result.window = network.window_error();
  return result;
}

}  // namespace banyan
