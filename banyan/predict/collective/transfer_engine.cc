#include "banyan/predict/collective/transfer_engine.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::predict {

uint32_t TransferEngine::add(const TransferGraph& graph) {
  uint32_t number = static_cast<uint32_t>(runs_.size());
  if (free_.empty()) {
    runs_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  const uint32_t transfers = static_cast<uint32_t>(graph.transfers().size());
  Run& run = runs_[number];
  run.graph = &graph;
  run.states.assign(transfers, {});
  run.slices_left = 0;
  for (uint32_t t = 0; t < transfers; ++t) {
    const FoldedTransfer& transfer = graph.transfers()[t];
    if (transfer.stands_for > 0) run.slices_left += transfer.slices;
    run.states[t].missing = static_cast<uint32_t>(graph.needs(t).size());
    if (run.states[t].missing == 0) run.states[t].ready = transfer.slices;
  }
  CHECK(run.slices_left > 0) << "a graph without transfers";
  return number;
}

void TransferEngine::begin(uint32_t run) {
  for (uint32_t t = 0; t < runs_[run].states.size(); ++t) go_on(run, t);
}

// Sends the next slice if it may.
void TransferEngine::go_on(uint32_t run, uint32_t t) {
  State& state = runs_[run].states[t];
  if (runs_[run].graph->transfers()[t].stands_for == 0) {  // a joint: its slices are there as soon as they are ready
    while (state.arrived < state.ready) arrive(run, t);
    return;
  }
  if (state.is_sending || state.sent == state.ready) return;
  state.is_sending = true;
  ++state.sent;
  carrier_.carry({run, t});
}

void TransferEngine::sent(Message message, Picoseconds now) {
  Run& run = runs_[message.run];
  run.states[message.transfer].is_sending = false;
  const Picoseconds delay = run.graph->transfers()[message.transfer].delay;
  if (delay == Picoseconds(0)) {
    arrive(message.run, message.transfer);
  } else {
    arrivals_.emplace_back(now + delay, message.run, message.transfer);
    std::push_heap(arrivals_.begin(), arrivals_.end(), std::greater<>());
  }
  go_on(message.run, message.transfer);
  if (run.slices_left == 0) release(message.run);
}

Picoseconds TransferEngine::next() const {
  return arrivals_.empty() ? FluidNetwork::kNever : std::get<0>(arrivals_.front());
}

void TransferEngine::advance(Picoseconds now) {
  while (!arrivals_.empty() && std::get<0>(arrivals_.front()) == now) {
    std::pop_heap(arrivals_.begin(), arrivals_.end(), std::greater<>());
    const auto [time, run, transfer] = arrivals_.back();
    arrivals_.pop_back();
    arrive(run, transfer);
    if (runs_[run].slices_left == 0) release(run);
  }
}

void TransferEngine::arrive(uint32_t number, uint32_t t) {
  Run& run = runs_[number];
  const uint32_t arrived = ++run.states[t].arrived;
  if (run.graph->transfers()[t].stands_for > 0) {
    --run.slices_left;
    ++messages_done_;
  }
  for (const uint32_t d : run.graph->dependents(t)) {
    State& dependent = run.states[d];
    if (dependent.ready + 1 != arrived || --dependent.missing > 0) continue;
    make_ready(run, d);
    go_on(number, d);
  }
}

// As many slices as all that it needs have delivered.
void TransferEngine::make_ready(Run& run, uint32_t t) {
  State& state = run.states[t];
  const auto needs = run.graph->needs(t);
  uint32_t least = UINT32_MAX;
  for (const uint32_t needed : needs) least = std::min(least, run.states[needed].arrived);
  state.ready = least;
  for (const uint32_t needed : needs) state.missing += run.states[needed].arrived == least;
}

void TransferEngine::release(uint32_t number) {
  ended_.push_back(number);
  runs_[number] = {};
  free_.push_back(number);
}

void TransferEngine::stop(uint32_t number) {
  std::erase_if(arrivals_, [&](const auto& arrival) { return std::get<1>(arrival) == number; });
  std::make_heap(arrivals_.begin(), arrivals_.end(), std::greater<>());
  runs_[number] = {};
  free_.push_back(number);
}

std::vector<uint32_t> TransferEngine::take_ended() { return std::exchange(ended_, {}); }

}  // namespace banyan::predict
