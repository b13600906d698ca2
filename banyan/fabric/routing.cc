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

Routing::Signs Routing::search(NodeId to, bool through_ranks) const {
  struct Reach {
    uint32_t hops = UINT32_MAX;  // to the destination; UINT32_MAX: none
    uint64_t width = 0;          // bytes per second of the narrowest link of the widest shortest way
  };
  std::vector<Reach> reaches(fabric_.nodes().size());
  reaches[index(to)] = {.hops = 0, .width = UINT64_MAX};
  const auto may_be_passed = [&](NodeId node) { return node == to || through_ranks || !fabric_.is_rank(node); };
  std::vector<NodeId> level{to}, next;
  for (uint32_t hops = 1; !level.empty(); ++hops, level.swap(next), next.clear()) {
    for (const NodeId node : level) {
      if (!may_be_passed(node)) continue;
      for (const LinkId in : fabric_.in_links(node)) {
        const Link& link = fabric_.link(in);
        Reach& reach = reaches[index(link.from)];
        if (reach.hops < hops) continue;
        if (reach.hops > hops) next.push_back(link.from);
        reach.hops = hops;
        reach.width = std::max(reach.width, std::min(link.bandwidth.bytes_per_second(), reaches[index(node)].width));
      }
    }
  }
  Signs signs;
  signs.start.push_back(0);
  for (uint32_t node = 0; node < reaches.size(); ++node) {
    const Reach& here = reaches[node];
    for (const LinkId out : fabric_.out_links(NodeId{node})) {
      const Link& link = fabric_.link(out);
      const Reach& there = reaches[index(link.to)];
      const bool is_best = here.hops != UINT32_MAX && there.hops < here.hops && may_be_passed(link.to) &&
                           std::min(link.bandwidth.bytes_per_second(), there.width) >= here.width;
      if (is_best) signs.links.push_back(out);
    }
    signs.start.push_back(static_cast<uint32_t>(signs.links.size()));
  }
  return signs;
}

const Routing::Ways& Routing::ways_to(NodeId to) {
  if (const auto found = ways_.find(index(to)); found != ways_.end()) return found->second;
  Ways ways{.by_switches = search(to, false), .by_ranks = {}};
  const auto is_cut_off = [&](NodeId rank) { return rank != to && !ways.by_switches.leads_on(rank); };
  if (std::any_of(fabric_.ranks().begin(), fabric_.ranks().end(), is_cut_off)) ways.by_ranks = search(to, true);
  size_t bytes = 0;
  for (const Signs* signs : {&ways.by_switches, &ways.by_ranks}) {
    bytes += signs->start.size() * sizeof(uint32_t) + signs->links.size() * sizeof(LinkId);
  }
  if (kept_ + bytes > kMostKept) {
    ways_.clear();
    kept_ = 0;
  }
  kept_ += bytes;
  return ways_.emplace(index(to), std::move(ways)).first->second;
}

void Routing::find(NodeId from, NodeId to, uint64_t salt, std::vector<LinkId>& way) {
  CHECK(from != to) << fabric_.name(from) << " to itself";
  const Ways& ways = ways_to(to);
  const Signs& signs = ways.by_switches.leads_on(from) ? ways.by_switches : ways.by_ranks;
  const std::span<const Link> links = fabric_.links();
  uint64_t hash = mixed(salt ^ mixed(uint64_t{index(from)} << 32 | index(to)));
  for (NodeId at = from; at != to; at = links[index(way.back())].to) {
    const uint32_t first = signs.start[index(at)], count = signs.start[index(at) + 1] - first;
    CHECK(count > 0) << fabric_.name(at) << " has no way to " << fabric_.name(to);
    hash = mixed(hash + 1);
    way.push_back(signs.links[first + static_cast<uint32_t>((hash >> 32) * count >> 32)]);
  }
}

}  // namespace banyan
