#include "banyan/plan/graph/cut_condition.h"

#include <algorithm>
#include <numeric>

namespace banyan::plan {
namespace {

constexpr int64_t kUnlimited = INT64_MAX / 4;
// Rank, switch, rank, switch, rank: as far as a shard goes between two boxes.
constexpr uint32_t kGreedyDepth = 4;

}  // namespace

// The batch is one more vertex, with an arc of capacity 0 or without limit to each terminal; these arcs follow the
// network's own.
CutCondition::CutCondition(const Network& network, std::span<const Arc> own_arcs)
    : network_(network), arc_count_(own_arcs.size()), batch_vertex_(network.vertex_count()) {
  const uint32_t vertices = network.vertex_count() + 1;
  std::vector<Arc> arcs(own_arcs.begin(), own_arcs.end());
  for (uint32_t t = 0; t < network.terminal_count(); ++t) arcs.push_back({.tail = batch_vertex_, .head = t});
  half_start_.assign(vertices + 1, 0);
  for (const Arc& arc : arcs) {
    ++half_start_[arc.head + 1];
    ++half_start_[arc.tail + 1];
  }
  std::partial_sum(half_start_.begin(), half_start_.end(), half_start_.begin());
  halves_.resize(2 * arcs.size());
  std::vector<uint32_t> next(half_start_.begin(), half_start_.end() - 1);
  for (uint32_t a = 0; a < arcs.size(); ++a) {
    halves_[next[arcs[a].head]++] = {.arc = a, .to = arcs[a].tail, .forward = true};
    halves_[next[arcs[a].tail]++] = {.arc = a, .to = arcs[a].head, .forward = false};
  }
  capacity_.resize(arcs.size());
  flow_.assign(arcs.size(), 0);
  level_.assign(vertices, -1);
  drawn_.assign(vertices, 0);
  visited_.assign(vertices, 0);
  next_.resize(vertices);
  supply_.assign(vertices, 0);
}

void CutCondition::load(const State& state) {
  std::copy(state.capacity.begin(), state.capacity.end(), capacity_.begin());
  std::copy(state.supply.begin(), state.supply.end(), supply_.begin());
  for (uint32_t t = 0; t < network_.terminal_count(); ++t) {
    capacity_[arc_count_ + t] = state.batch && state.batch->members[t] ? kUnlimited : 0;
  }
  supply_[batch_vertex_] = state.batch ? state.batch->units : 0;
}

int64_t CutCondition::residual(const HalfArc& half) const {
  return half.forward ? capacity_[half.arc] - flow_[half.arc] : flow_[half.arc];
}

// Breadth-first levels of the vertices that can reach the sink; true when a source with something left is among them.
// Sources without limit are not walked through: nothing behind them matters. Once one is found, what is further from
// the sink than it is left for the next time.
bool CutCondition::label(uint32_t sink) {
  for (const uint32_t v : queue_) level_[v] = -1;
  level_[sink] = 0;
  queue_.assign(1, sink);
  bool found = false, enough = false;
  for (size_t i = 0; i < queue_.size(); ++i) {
    const uint32_t v = queue_[i];
    next_[v] = half_start_[v];
    enough |= is_source_[v] != 0;
    found |= enough || supply_[v] > drawn_[v];
    if (enough) continue;
    work_ += half_start_[v + 1] - half_start_[v];
    for (uint32_t h = half_start_[v]; h < half_start_[v + 1]; ++h) {
      const HalfArc& half = halves_[h];
      if (level_[half.to] >= 0 || residual(half) <= 0) continue;
      level_[half.to] = level_[v] + 1;
      queue_.push_back(half.to);
    }
  }
  return found;
}

int64_t CutCondition::draw(uint32_t vertex, int64_t want) {
  const int64_t amount = std::min(want, supply_[vertex] - drawn_[vertex]);
  if (amount <= 0) return 0;
  if (drawn_[vertex] == 0) drawn_from_.push_back(vertex);
  drawn_[vertex] += amount;
  return amount;
}

// Brings up to `want` units to `vertex` from sources at this level or behind (Dinic's blocking flow, from the sink).
int64_t CutCondition::pull(uint32_t vertex, int64_t want) {
  if (is_source_[vertex]) return want;
  int64_t got = draw(vertex, want);
  for (uint32_t& h = next_[vertex]; h < half_start_[vertex + 1]; ++h) {
    if (got == want) return got;
    const HalfArc& half = halves_[h];
    if (level_[half.to] != level_[vertex] + 1) continue;
    const int64_t room = residual(half);
    if (room <= 0) continue;
    const int64_t amount = std::min(want - got, room);
    const int64_t brought = pull(half.to, amount);
    if (brought > 0) {
      if (flow_[half.arc] == 0) touched_.push_back(half.arc);
      flow_[half.arc] += half.forward ? brought : -brought;
      got += brought;
    }
    if (got == want) return got;  // this arc may have more to give in the next pull
  }
  return got;
}

// A first pass that finds most of the flow without labelling the whole graph: depth first over free arcs, a few hops
// deep, never again into a vertex that could not give all it was asked for. What it cannot bring is left to label and
// pull, which may also take its choices back.
int64_t CutCondition::pull_greedily(uint32_t vertex, int64_t want, uint32_t depth) {
  if (is_source_[vertex]) return want;
  int64_t got = draw(vertex, want);
  if (depth == 0 || got == want) return got;
  work_ += half_start_[vertex + 1] - half_start_[vertex];
  visited_[vertex] = stamp_;  // while it is on the way down, and for good if it comes back short
  for (uint32_t h = half_start_[vertex]; h < half_start_[vertex + 1] && got < want; ++h) {
    const HalfArc& half = halves_[h];
    if (!half.forward || visited_[half.to] == stamp_) continue;
    const int64_t room = residual(half);
    if (room <= 0) continue;
    const int64_t brought = pull_greedily(half.to, std::min(want - got, room), depth - 1);
    if (brought == 0) continue;
    if (flow_[half.arc] == 0) touched_.push_back(half.arc);
    flow_[half.arc] += brought;
    got += brought;
  }
  if (got == want) visited_[vertex] = 0;
  return got;
}

bool CutCondition::reaches(uint32_t sink, int64_t demand) {
  // Enough at hand without any search: its own supply and what verified neighbours can send.
  int64_t at_hand = supply_[sink];
  for (uint32_t h = half_start_[sink]; h < half_start_[sink + 1] && at_hand < demand; ++h) {
    if (halves_[h].forward && is_source_[halves_[h].to]) at_hand += capacity_[halves_[h].arc];
  }
  searched_ = at_hand < demand;
  if (!searched_) return true;
  network_.tell_observer();
  for (const uint32_t arc : touched_) flow_[arc] = 0;
  touched_.clear();
  for (const uint32_t v : drawn_from_) drawn_[v] = 0;
  drawn_from_.clear();
  ++stamp_;
  int64_t value = pull_greedily(sink, demand, kGreedyDepth);
  while (value < demand && label(sink)) value += pull(sink, demand - value);
  return value >= demand;
}

VertexSet CutCondition::sink_side() const {
  VertexSet side(network_.vertex_count(), 0);
  for (uint32_t v = 0; v < side.size(); ++v) side[v] = level_[v] >= 0;
  return side;
}

std::optional<VertexSet> CutCondition::find_violated(const State& state,
                                                     const std::function<void(const VertexSet&)>& on_tight) {
  load(state);
  const int64_t demand = std::accumulate(supply_.begin(), supply_.end(), int64_t{0});
  is_source_.assign(level_.size(), 0);
  for (const uint32_t sink : network_.terminals_nearby()) {
    if (!reaches(sink, demand)) return sink_side();
    if (on_tight && searched_ && !label(sink)) on_tight(sink_side());
    is_source_[sink] = 1;
  }
  return std::nullopt;
}

void CutCondition::each_violated(const State& state, std::span<const uint32_t> sinks,
                                 const std::function<void(const VertexSet&)>& violated) {
  load(state);
  const int64_t demand = std::accumulate(supply_.begin(), supply_.end(), int64_t{0});
  is_source_.assign(level_.size(), 0);
  for (const uint32_t sink : sinks) {
    if (reaches(sink, demand)) {
      is_source_[sink] = 1;
    } else {
      violated(sink_side());
    }
  }
}

void CutCondition::repair(const State& state, const std::function<void(const VertexSet&)>& violated) {
  load(state);
  is_source_.assign(level_.size(), 0);
  for (const uint32_t sink : network_.terminals_nearby()) {
    while (!reaches(sink, std::accumulate(supply_.begin(), supply_.end(), int64_t{0}))) {
      violated(sink_side());
      load(state);
    }
    is_source_[sink] = 1;
  }
}

}  // namespace banyan::plan
