#include "banyan/design/up_paths.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::design {
namespace {

constexpr uint32_t kUnknown = UINT32_MAX;
constexpr unsigned __int128 kMostPaths = uint64_t{1} << 60;

}  // namespace

std::optional<UpPaths> UpPaths::of(const Fabric& fabric, const fabric::Cables& cables) {
  UpPaths result;
  if (!result.find_tiers(fabric, cables) || !result.count_paths(fabric)) return std::nullopt;
  return result;
}

bool UpPaths::find_tiers(const Fabric& fabric, const fabric::Cables& cables) {
  // Tiers are distances from the ranks, found breadth first from all of them.
  tier_.assign(fabric.nodes().size(), kUnknown);
  std::vector<NodeId> queue(fabric.ranks().begin(), fabric.ranks().end());
  for (const NodeId rank : queue) tier_[index(rank)] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const LinkId link : fabric.out_links(queue[i])) {
      const NodeId next = fabric.link(link).to;
      if (tier_[index(next)] != kUnknown) continue;
      tier_[index(next)] = tier_[index(queue[i])] + 1;
      queue.push_back(next);
    }
  }
  // Each cable must join neighbouring tiers in both directions, or the fabric is no Clos.
  up_.resize(tier_.size());
  down_.resize(tier_.size());
  for (uint32_t c = 0; c < cables.all().size(); ++c) {
    const fabric::Cable& cable = cables[c];
    const uint32_t a = tier_[index(cable.a)], b = tier_[index(cable.b)];
    if (!cable.forth || !cable.back || a == kUnknown || b == kUnknown || (a + 1 != b && b + 1 != a)) return false;
    ends_.push_back(a < b ? Ends{cable.a, cable.b} : Ends{cable.b, cable.a});
    up_[index(ends_.back().lower)].push_back(c);
    down_[index(ends_.back().upper)].push_back(c);
  }
  enabled_.assign(ends_.size(), 1);
  return true;
}

bool UpPaths::count_paths(const Fabric& fabric) {
  // From the top tier down: a node has the paths of all nodes that its cables lead up to.
  uint32_t top = 0;
  for (const uint32_t tier : tier_) top = std::max(top, tier == kUnknown ? 0 : tier);
  if (top < 2) return false;
  of_tier_.resize(top + 1);
  waiting_.resize(top + 1);
  for (uint32_t v = 0; v < tier_.size(); ++v) {
    if (tier_[v] != kUnknown) of_tier_[tier_[v]].push_back(NodeId{v});
  }
  paths_.assign(tier_.size(), 0);
  for (const NodeId node : of_tier_[top]) paths_[index(node)] = 1;
  for (uint32_t tier = top; tier-- > 0;) {
    for (const NodeId node : of_tier_[tier]) {
      unsigned __int128 sum = 0;
      for (const uint32_t c : up_[index(node)]) sum += paths_[index(ends_[c].upper)];
      if (sum > kMostPaths) return false;
      paths_[index(node)] = static_cast<uint64_t>(sum);
    }
  }
  first_ = paths_;
  delta_.assign(tier_.size(), 0);
  return std::ranges::all_of(fabric.ranks(), [&](NodeId rank) { return paths_[index(rank)] > 0; });
}

void UpPaths::change(uint32_t cable, bool enabled) {
  touched_ranks_.clear();
  CHECK(is_enabled(cable) != enabled) << "cable " << cable << " is so already";
  enabled_[cable] = enabled ? 1 : 0;
  const auto add = [&](NodeId node, int64_t change) {
    if (change == 0) return;
    if (delta_[index(node)] == 0) waiting_[tier_[index(node)]].push_back(node);
    delta_[index(node)] += change;
  };
  // Paths through the cable are those of its upper end. Below it each node has as many more or fewer as its cables up
  // pass on; tier by tier all of a node's change is known when it is passed on.
  const Ends& ends = ends_[cable];
  const int64_t ways = static_cast<int64_t>(paths_[index(ends.upper)]);
  add(ends.lower, enabled ? ways : -ways);
  // All changes have one sign, so that none cancels.
  for (uint32_t tier = tier_[index(ends.lower)] + 1; tier-- > 0;) {
    for (const NodeId node : waiting_[tier]) {
      const int64_t change = delta_[index(node)];
      delta_[index(node)] = 0;
      paths_[index(node)] += static_cast<uint64_t>(change);
      if (tier == 0) touched_ranks_.push_back(node);
      for (const uint32_t c : down_[index(node)]) {
        if (enabled_[c]) add(ends_[c].lower, change);
      }
    }
    waiting_[tier].clear();
  }
}

}  // namespace banyan::design
