#include "banyan/plan/graph/root_flow.h"

#include <algorithm>
#include <numeric>

namespace banyan::plan {
namespace {

constexpr uint32_t kUnreached = UINT32_MAX;
constexpr uint32_t kStart = UINT32_MAX - 1;

}  // namespace

RootFlow::RootFlow(const Network& network, std::span<const int64_t> capacity, uint32_t root)
    : network_(&network), room_(capacity.begin(), capacity.end()), flow_(capacity.size(), 0), root_(root) {}

int64_t RootFlow::send(uint32_t terminal, int64_t units) {
  while (units > 0 && search(terminal)) {
    int64_t most = units;
    walk_back(terminal, [&](uint32_t a, bool forward) { most = std::min(most, forward ? room_[a] : flow_[a]); });
    walk_back(terminal, [&](uint32_t a, bool forward) {
      room_[a] += forward ? -most : most;
      flow_[a] += forward ? most : -most;
    });
    units -= most;
  }
  return units;
}

bool RootFlow::still_reaches(uint32_t vertex) const { return came_by_[vertex] != kUnreached; }

Way RootFlow::take_way(uint32_t terminal, int64_t units) {
  search_flow(terminal);
  Way way{.arcs = {}, .units = units};
  for (uint32_t v = terminal; v != root_; v = network_->arcs()[way.arcs.back()].tail) {
    way.arcs.push_back(came_by_[v] / 2);
    way.units = std::min(way.units, flow_[way.arcs.back()]);
  }
  for (const uint32_t a : way.arcs) flow_[a] -= way.units;
  std::reverse(way.arcs.begin(), way.arcs.end());
  return way;
}

bool RootFlow::search(uint32_t terminal) {
  begin_search();
  for (size_t i = 0; i < queue_.size() && came_by_[terminal] == kUnreached; ++i) {
    for (const uint32_t a : network_->out_arcs(queue_[i])) {
      if (room_[a] > 0) reach(network_->arcs()[a].head, 2 * a);
    }
    for (const uint32_t a : network_->in_arcs(queue_[i])) {
      if (flow_[a] > 0) reach(network_->arcs()[a].tail, 2 * a + 1);
    }
  }
  return came_by_[terminal] != kUnreached;
}

void RootFlow::search_flow(uint32_t terminal) {
  begin_search();
  for (size_t i = 0; i < queue_.size() && came_by_[terminal] == kUnreached; ++i) {
    for (const uint32_t a : network_->out_arcs(queue_[i])) {
      if (flow_[a] > 0) reach(network_->arcs()[a].head, 2 * a);
    }
  }
}

void RootFlow::begin_search() {
  came_by_.assign(network_->vertex_count(), kUnreached);
  came_by_[root_] = kStart;
  queue_.assign(1, root_);
}

void RootFlow::reach(uint32_t v, uint32_t half) {
  if (came_by_[v] != kUnreached) return;
  came_by_[v] = half;
  queue_.push_back(v);
}

template <typename Visit>
void RootFlow::walk_back(uint32_t terminal, const Visit& visit) const {
  for (uint32_t v = terminal; v != root_;) {
    const uint32_t a = came_by_[v] / 2;
    const bool forward = came_by_[v] % 2 == 0;
    visit(a, forward);
    v = forward ? network_->arcs()[a].tail : network_->arcs()[a].head;
  }
}

std::optional<Dealt> deal_out(const Network& network, std::span<const int64_t> capacity, uint32_t root,
                              std::span<const uint32_t> hubs, int64_t supply, int64_t most_units) {
  const int64_t count = static_cast<int64_t>(hubs.size());
  int64_t parts = count / std::gcd(count, supply);
  if (parts > most_units / supply) parts = 1;
  std::vector<int64_t> wide(capacity.begin(), capacity.end());
  for (int64_t& c : wide) c *= parts;
  Dealt dealt{.parts = parts, .units = std::vector<int64_t>(hubs.size(), 0), .flow = RootFlow(network, wide, root)};
  int64_t left = supply * parts;
  const auto send = [&](size_t hub, int64_t units) {
    units -= dealt.flow.send(hubs[hub], units);
    dealt.units[hub] += units;
    left -= units;
  };
  const int64_t each = left / count;
  for (size_t hub = 0; hub < hubs.size(); ++hub) send(hub, each);
  // What remains goes to hubs far from each other in the list: neighbours share links.
  const size_t others = left < count ? static_cast<size_t>(left) : 0;
  for (size_t i = 0; i < others; ++i) send(i * hubs.size() / others, std::min<int64_t>(left, 1));
  for (size_t hub = 0; hub < hubs.size() && left > 0; ++hub) send(hub, left);
  if (left > 0) return std::nullopt;
  return dealt;
}

VertexSet near_side(const Network& network, std::span<const int64_t> capacity, uint32_t root, int64_t supply) {
  const uint32_t terminals = network.terminal_count();
  VertexSet near(network.vertex_count(), 0);
  near[root] = 1;
  RootFlow flow(network, capacity, root);
  const uint32_t opposite = (root + terminals / 2) % terminals;
  flow.send(opposite, supply);
  if (flow.send(opposite, 1) == 0) return near;
  uint32_t reached = 0;
  for (uint32_t t = 0; t < terminals; ++t) reached += flow.still_reaches(t) ? 1 : 0;
  if (2 * reached > terminals) return near;
  for (uint32_t v = 0; v < network.vertex_count(); ++v) near[v] = flow.still_reaches(v) ? 1 : 0;
  return near;
}

}  // namespace banyan::plan
