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

Routing::Tree Routing::search(NodeId to, bool through_ranks) const {
  Tree tree(fabric_.nodes().size());
  tree[index(to)] = {.hops = 0, .width = UINT64_MAX};
  std::vector<NodeId> level{to}, next;
  for (uint32_t hops = 1; !level.empty(); ++hops, level.swap(next), next.clear()) {
    for (const NodeId node : level) {
      if (hops > 1 && fabric_.is_rank(node) && !through_ranks) continue;
      for (const LinkId in : fabric_.in_links(node)) {
        const Link& link = fabric_.link(in);
        Reach& reach = tree[index(link.from)];
        if (reach.hops < hops) continue;
        if (reach.hops > hops) next.push_back(link.from);
        reach.hops = hops;
        reach.width = std::max(reach.width, std::min(link.bandwidth.bytes_per_second(), tree[index(node)].width));
      }
    }
  }
  return tree;
}

const Routing::Trees& Routing::trees_to(NodeId to) {
  if (const auto found = trees_.find(index(to)); found != trees_.end()) return found->second;
  if (trees_.size() == kMostKept) trees_.clear();
  Trees trees{.switches = search(to, false), .ranks = {}};
  const auto is_cut_off = [&](NodeId rank) { return trees.switches[index(rank)].hops == UINT32_MAX; };
  if (std::any_of(fabric_.ranks().begin(), fabric_.ranks().end(), is_cut_off)) trees.ranks = search(to, true);
  return trees_.emplace(index(to), std::move(trees)).first->second;
}

void Routing::find(NodeId from, NodeId to, uint64_t salt, std::vector<LinkId>& way) {
  CHECK(from != to) << fabric_.name(from) << " to itself";
  const Trees& trees = trees_to(to);
  const bool through_ranks = trees.switches[index(from)].hops == UINT32_MAX;
  const Tree& tree = through_ranks ? trees.ranks : trees.switches;
  uint64_t hash = mixed(salt ^ mixed(uint64_t{index(from)} << 32 | index(to)));
  for (NodeId at = from; at != to;) {
    const Reach& here = tree[index(at)];
    const auto is_good = [&](const Link& link) {
      const Reach& there = tree[index(link.to)];
      if (!through_ranks && fabric_.is_rank(link.to) && link.to != to) return false;
      return there.hops < here.hops && std::min(link.bandwidth.bytes_per_second(), there.width) >= here.width;
    };
    uint32_t good = 0;
    for (const LinkId out : fabric_.out_links(at)) good += is_good(fabric_.link(out));
    CHECK(good > 0) << fabric_.name(at) << " has no way to " << fabric_.name(to);
    hash = mixed(hash + 1);
    uint32_t pick = static_cast<uint32_t>((hash >> 32) * good >> 32);
    for (const LinkId out : fabric_.out_links(at)) {
      if (!is_good(fabric_.link(out)) || pick-- > 0) continue;
      way.push_back(out);
      at = fabric_.link(out).to;
      break;
    }
  }
}

}  // namespace banyan
