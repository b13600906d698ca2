#include "banyan/fabric/routing.h"

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"

namespace banyan::fabric {

Routing::Routing(Fabric fabric)
    : fabric_(std::move(fabric)), reaches_(fabric_.nodes().size()), stop_of_(fabric_.nodes().size()) {}

NodeId Routing::only_gate_of(NodeId to) const {
  const NodeId gate = fabric_.link(fabric_.in_links(to).front()).from;
  const auto comes_from_it = [&](LinkId in) { return fabric_.link(in).from == gate; };
  const std::span<const LinkId> in = fabric_.in_links(to);
  return !fabric_.is_rank(gate) && std::all_of(in.begin(), in.end(), comes_from_it) ? gate : to;
}

Routing::Reach Routing::best_steps(NodeId node, NodeId to, const Ways& ways) {
  first_steps_.clear();
  Reach best;
  for (const LinkId out : fabric_.out_links(node)) {
    const Link& link = fabric_.link(out);
    Reach reach{.hops = 1, .width = link.bandwidth.bytes_per_second()};
    uint32_t number = kDestination;
    if (link.to != to) {
      const auto node_at = std::lower_bound(ways.nodes.begin(), ways.nodes.end(), link.to);
      if (node_at == ways.nodes.end() || *node_at != link.to) continue;
      number = static_cast<uint32_t>(node_at - ways.nodes.begin());
      const Reach& there = ways.stops[number].reach;
      reach = {.hops = there.hops + 1, .width = std::min(reach.width, there.width)};
    }
    if (reach.hops > best.hops || (reach.hops == best.hops && reach.width < best.width)) continue;
    if (reach.hops < best.hops || reach.width > best.width) first_steps_.clear();
    best = reach;
    first_steps_.push_back({out, number});
  }
  return best;
}

Routing::Ways Routing::search(NodeId to, bool through_ranks) {
  ++searches_;
  std::vector<NodeId> reached;  // level by level, from the destination
  reaches_[index(to)] = {.hops = 0, .width = UINT64_MAX};
  std::vector<NodeId> level{to}, next;
  for (uint32_t hops = 1; !level.empty(); ++hops, level.swap(next), next.clear()) {
    for (const NodeId node : level) {
      for (const LinkId in : fabric_.in_links(node)) {
        const Link& link = fabric_.link(in);
        if (!through_ranks && fabric_.is_rank(link.from)) continue;
        Reach& reach = reaches_[index(link.from)];
        if (reach.hops < hops) continue;
        if (reach.hops > hops) next.push_back(link.from);
        reach.hops = hops;
        reach.width = std::max(reach.width, std::min(link.bandwidth.bytes_per_second(), reaches_[index(node)].width));
      }
    }
    reached.insert(reached.end(), next.begin(), next.end());
  }
  std::sort(reached.begin(), reached.end());
  Ways ways;
  for (const NodeId node : reached) {
    stop_of_[index(node)] = static_cast<uint32_t>(ways.stops.size());
    ways.stops.push_back({.reach = reaches_[index(node)]});
  }
  stop_of_[index(to)] = kDestination;
  for (size_t i = 0; i < reached.size(); ++i) {
    Stop& stop = ways.stops[i];
    stop.first = static_cast<uint32_t>(ways.steps.size());
    for (const LinkId out : fabric_.out_links(reached[i])) {
      const Link& link = fabric_.link(out);
      const Reach& there = reaches_[index(link.to)];
      if (there.hops >= stop.reach.hops) continue;
      if (std::min(link.bandwidth.bytes_per_second(), there.width) < stop.reach.width) continue;
      ways.steps.push_back({out, stop_of_[index(link.to)]});
    }
    stop.count = static_cast<uint32_t>(ways.steps.size()) - stop.first;
  }
  reaches_[index(to)] = {};
  for (const NodeId node : reached) reaches_[index(node)] = {};
  ways.nodes = std::move(reached);
  return ways;
}

const Routing::Ways& Routing::ways_to(NodeId to, bool through_ranks) {
  const uint64_t key = uint64_t{index(to)} << 1 | uint64_t{through_ranks};
  if (const auto found = ways_.find(key); found != ways_.end()) return found->second;
  Ways ways = search(to, through_ranks);
  const size_t bytes = ways.stops.size() * (sizeof(Stop) + sizeof(NodeId)) + ways.steps.size() * sizeof(Step);
  if (kept_ + bytes > kMostKept) {
    ways_.clear();
    kept_ = 0;
  }
  kept_ += bytes;
  return ways_.emplace(key, std::move(ways)).first->second;
}

uint64_t Routing::take_links(NodeId from, NodeId to) {
  first_steps_.clear();
  uint64_t widest = 0;
  for (const LinkId out : fabric_.out_links(from)) {
    const Link& link = fabric_.link(out);
    if (link.to != to) continue;
    const uint64_t width = link.bandwidth.bytes_per_second();
    if (width > widest) first_steps_.clear();
    if (width >= widest) first_steps_.push_back({out, kDestination});
    widest = std::max(widest, width);
  }
  return widest;
}

Routing::Reach Routing::find_gates(NodeId from, NodeId to) {
  gates_.clear();
  Reach best;
  for (const LinkId in : fabric_.in_links(to)) {
    const Link& last = fabric_.link(in);
    if (fabric_.is_rank(last.from)) continue;
    Reach reach = best_steps(from, last.from, ways_to(last.from, false));
    reach.width = std::min(reach.width, last.bandwidth.bytes_per_second());
    if (first_steps_.empty() || reach.hops > best.hops || (reach.hops == best.hops && reach.width < best.width)) {
      continue;
    }
    if (reach.hops < best.hops || reach.width > best.width) gates_.clear();
    best = reach;
    if (std::find(gates_.begin(), gates_.end(), last.from) == gates_.end()) gates_.push_back(last.from);
  }
  return best;
}

void Routing::walk(NodeId from, NodeId to, bool through_ranks, Path& path) {
  const Ways& ways = ways_to(to, through_ranks);
  best_steps(from, to, ways);
  for (std::span<const Step> choices = first_steps_;;) {
    CHECK(!choices.empty()) << fabric_.name(from) << " has no way to " << fabric_.name(to);
    const Step& step = choices[path.one_of(choices.size())];
    path.links.push_back(step.link);
    if (step.stop == kDestination) return;
    const Stop& stop = ways.stops[step.stop];
    choices = std::span(ways.steps).subspan(stop.first, stop.count);
  }
}

// False when no way leads through switches alone.
bool Routing::through_switches(NodeId from, NodeId to, Path& path) {
  CHECK(from != to) << fabric_.name(from) << " to itself";
  if (take_links(from, to) == 0) {
    find_gates(from, to);
    if (gates_.empty()) return false;
    const NodeId gate = gates_.size() == 1 ? gates_.front() : gates_[path.one_of(gates_.size())];
    walk(from, gate, false, path);
    take_links(gate, to);
  }
  path.links.push_back(first_steps_[path.one_of(first_steps_.size())].link);
  return true;
}

void Routing::find(NodeId from, NodeId to, uint64_t salt, std::vector<LinkId>& way) {
  Path path{mix(salt ^ mix(uint64_t{index(from)} << 32 | index(to))), way};
  if (through_switches(from, to, path)) return;
  const NodeId gate = only_gate_of(to);
  walk(from, gate, true, path);
  if (gate == to) return;
  take_links(gate, to);
  way.push_back(first_steps_[path.one_of(first_steps_.size())].link);
}

bool Routing::find_first(NodeId from, NodeId to, std::vector<LinkId>& way) {
  Path first{std::nullopt, way};
  return through_switches(from, to, first);
}

std::optional<Bandwidth> Routing::width(NodeId from, NodeId to) {
  uint64_t width = take_links(from, to);
  if (width == 0) width = find_gates(from, to).width;
  return width == 0 ? std::nullopt : std::optional(Bandwidth::bytes_per_second(width));
}

size_t Routing::Path::one_of(size_t count) {
  if (!hash) return 0;
  hash = mix(*hash + 1);
  return static_cast<size_t>((*hash >> 32) * count >> 32);
}

}  // namespace banyan::fabric
