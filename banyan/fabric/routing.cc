#include "banyan/fabric/routing.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan {
namespace {

// The finaliser of splitmix64: every bit of the input moves every bit of the output.
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

Routing::Routing(Fabric fabric) : fabric_(std::move(fabric)), reaches_(fabric_.nodes().size()) {}

const Routing::Stop* Routing::Ways::at(NodeId node) const {
  const auto found =
      std::lower_bound(stops.begin(), stops.end(), node, [](const Stop& stop, NodeId id) { return stop.node < id; });
  return found != stops.end() && found->node == node ? &*found : nullptr;
}

Routing::Reach Routing::look_out(NodeId node, NodeId to, const Ways& ways, bool through_ranks,
                                 std::vector<LinkId>& links) const {
  Reach best;
  const size_t begin = links.size();
  for (const LinkId out : fabric_.out_links(node)) {
    const Link& link = fabric_.link(out);
    Reach reach{.hops = 1, .width = link.bandwidth.bytes_per_second()};
    if (link.to != to) {
      if (!through_ranks && fabric_.is_rank(link.to)) continue;
      const Stop* stop = ways.at(link.to);
      if (stop == nullptr) continue;
      reach = {.hops = stop->reach.hops + 1, .width = std::min(reach.width, stop->reach.width)};
    }
    if (reach.hops > best.hops || (reach.hops == best.hops && reach.width < best.width)) continue;
    if (reach.hops < best.hops || reach.width > best.width) links.resize(begin);
    best = reach;
    links.push_back(out);
  }
  return best;
}

Routing::Ways Routing::search(NodeId to, bool through_ranks) {
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
  Ways ways;
  for (const NodeId node : reached) ways.stops.push_back({.node = node, .reach = reaches_[index(node)]});
  std::sort(ways.stops.begin(), ways.stops.end(), [](const Stop& a, const Stop& b) { return a.node < b.node; });
  for (Stop& stop : ways.stops) {
    stop.first = static_cast<uint32_t>(ways.links.size());
    look_out(stop.node, to, ways, through_ranks, ways.links);
    stop.count = static_cast<uint32_t>(ways.links.size()) - stop.first;
  }
  reaches_[index(to)] = {};
  for (const NodeId node : reached) reaches_[index(node)] = {};
  return ways;
}

const Routing::Ways& Routing::ways_to(NodeId to, bool through_ranks) {
  const uint64_t key = uint64_t{index(to)} << 1 | uint64_t{through_ranks};
  if (const auto found = ways_.find(key); found != ways_.end()) return found->second;
  Ways ways = search(to, through_ranks);
  const size_t bytes = ways.stops.size() * sizeof(Stop) + ways.links.size() * sizeof(LinkId);
  if (kept_ + bytes > kMostKept) {
    ways_.clear();
    kept_ = 0;
  }
  kept_ += bytes;
  return ways_.emplace(key, std::move(ways)).first->second;
}

void Routing::find(NodeId from, NodeId to, uint64_t salt, std::vector<LinkId>& way) {
  CHECK(from != to) << fabric_.name(from) << " to itself";
  const Ways* ways = &ways_to(to, false);
  first_links_.clear();
  if (look_out(from, to, *ways, false, first_links_).hops == UINT32_MAX) {
    ways = &ways_to(to, true);
    look_out(from, to, *ways, true, first_links_);
  }
  uint64_t hash = mixed(salt ^ mixed(uint64_t{index(from)} << 32 | index(to)));
  std::span<const LinkId> choices = first_links_;
  for (;;) {
    CHECK(!choices.empty()) << fabric_.name(from) << " has no way to " << fabric_.name(to);
    hash = mixed(hash + 1);
    way.push_back(choices[(hash >> 32) * choices.size() >> 32]);
    const NodeId at = fabric_.link(way.back()).to;
    if (at == to) return;
    const Stop* stop = ways->at(at);
    choices = std::span(ways->links).subspan(stop->first, stop->count);
  }
}

}  // namespace banyan
