#include "banyan/fabric/boxes.h"

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/fabric/disjoint_sets.h"

namespace banyan::fabric {
namespace {

// Groups of nodes that are joined; counts those which hold a rank.
class Groups {
 public:
  explicit Groups(const Fabric& fabric)
      : sets_(fabric.nodes().size()), holds_rank_(fabric.nodes().size(), false), rank_groups_(fabric.ranks().size()) {
    for (const NodeId rank : fabric.ranks()) holds_rank_[index(rank)] = true;
  }

  // The lowest node of its group.
  uint32_t find(uint32_t node) { return sets_.find(node); }

  void join(const Link& link) {
    const uint32_t a = find(index(link.from)), b = find(index(link.to));
    if (a == b) return;
    sets_.join(a, b);
    if (holds_rank_[a] && holds_rank_[b]) --rank_groups_;
    holds_rank_[find(a)] = holds_rank_[a] || holds_rank_[b];
  }

  size_t rank_groups() const { return rank_groups_; }

 private:
  DisjointSets<> sets_;
  std::vector<bool> holds_rank_;
  size_t rank_groups_;
};

// Collects ranks by a label; boxes come out in the order of their first rank.
std::vector<std::vector<NodeId>> collect(const Fabric& fabric, const std::vector<uint32_t>& label) {
  std::vector<std::vector<NodeId>> boxes;
  std::vector<uint32_t> box_of_label(fabric.nodes().size(), Boxes::kNone);
  for (const NodeId rank : fabric.ranks()) {
    uint32_t& box = box_of_label[label[index(rank)]];
    if (box == Boxes::kNone) {
      box = static_cast<uint32_t>(boxes.size());
      boxes.emplace_back();
    }
    boxes[box].push_back(rank);
  }
  return boxes;
}

// By node: the lowest of the nodes that these links join it to.
template <typename IsMeant>
std::vector<uint32_t> joined_by(const Fabric& fabric, IsMeant is_meant) {
  Groups groups(fabric);
  for (const Link& link : fabric.links()) {
    if (is_meant(link)) groups.join(link);
  }
  std::vector<uint32_t> label(fabric.nodes().size());
  for (uint32_t node = 0; node < label.size(); ++node) label[node] = groups.find(node);
  return label;
}

bool is_direct(const Fabric& fabric, const Link& link) { return fabric.is_rank(link.from) && fabric.is_rank(link.to); }

bool has_lone(const std::vector<std::vector<NodeId>>& boxes) {
  return std::any_of(boxes.begin(), boxes.end(), [](const auto& ranks) { return ranks.size() < 2; });
}

// Empty when the tiers do not tell.
std::vector<std::vector<NodeId>> by_bandwidth_tier(const Fabric& fabric) {
  const uint64_t least = kBoxTier * joining_bandwidth(fabric).bytes_per_second();
  const auto label = joined_by(fabric, [&](const Link& link) { return link.bandwidth.bytes_per_second() >= least; });
  const bool directly_joined = std::any_of(fabric.links().begin(), fabric.links().end(), [&](const Link& link) {
    return is_direct(fabric, link) && label[index(link.from)] != label[index(link.to)];
  });
  if (directly_joined) return {};
  std::vector<std::vector<NodeId>> boxes = collect(fabric, label);
  return has_lone(boxes) ? std::vector<std::vector<NodeId>>() : boxes;
}

// Empty when direct links do not tell.
std::vector<std::vector<NodeId>> by_direct_links(const Fabric& fabric) {
  const auto label = joined_by(fabric, [&](const Link& link) { return is_direct(fabric, link); });
  std::vector<std::vector<NodeId>> boxes = collect(fabric, label);
  if (has_lone(boxes)) return {};
  // Summed by label, since a link may be as wide as Bandwidth allows and a box has many.
  using Sum = unsigned __int128;
  std::vector<Sum> inside(label.size()), outside(label.size());
  for (const Link& link : fabric.links()) {
    if (is_direct(fabric, link)) inside[label[index(link.from)]] += link.bandwidth.bytes_per_second();
    if (!is_direct(fabric, link) && fabric.is_rank(link.from)) {
      outside[label[index(link.from)]] += link.bandwidth.bytes_per_second();
    }
  }
  const bool all_wide = std::all_of(boxes.begin(), boxes.end(), [&](const auto& ranks) {
    const uint32_t box = label[index(ranks.front())];
    return inside[box] >= kBoxTier * outside[box];
  });
  return all_wide ? boxes : std::vector<std::vector<NodeId>>();
}

// Empty when a rank has no switch.
std::vector<std::vector<NodeId>> by_first_switch(const Fabric& fabric) {
  std::vector<uint32_t> label(fabric.nodes().size(), 0);
  for (const NodeId rank : fabric.ranks()) {
    const Link* fattest = nullptr;
    for (const LinkId id : fabric.out_links(rank)) {
      const Link& link = fabric.link(id);
      if (!fabric.is_rank(link.to) && (fattest == nullptr || link.bandwidth > fattest->bandwidth)) fattest = &link;
    }
    if (fattest == nullptr) return {};
    label[index(rank)] = index(fattest->to);
  }
  return collect(fabric, label);
}

void place_switches(const Fabric& fabric, Boxes& boxes) {
  boxes.box_of.assign(fabric.nodes().size(), Boxes::kNone);
  for (uint32_t box = 0; box < boxes.ranks.size(); ++box) {
    for (const NodeId rank : boxes.ranks[box]) boxes.box_of[index(rank)] = box;
  }
  for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
    if (fabric.is_rank(NodeId{node})) continue;
    uint32_t box = Boxes::kNone;
    bool of_one_box = true;
    const auto see = [&](NodeId neighbour) {
      if (!fabric.is_rank(neighbour)) return;
      const uint32_t other = boxes.box_of[index(neighbour)];
      of_one_box = of_one_box && (box == Boxes::kNone || box == other);
      box = other;
    };
    for (const LinkId id : fabric.out_links(NodeId{node})) see(fabric.link(id).to);
    for (const LinkId id : fabric.in_links(NodeId{node})) see(fabric.link(id).from);
    if (of_one_box) boxes.box_of[node] = box;
  }
}

}  // namespace

Bandwidth joining_bandwidth(const Fabric& fabric) {
  std::vector<LinkId> links(fabric.links().size());
  for (uint32_t i = 0; i < links.size(); ++i) links[i] = LinkId{i};
  std::stable_sort(links.begin(), links.end(),
                   [&](LinkId a, LinkId b) { return fabric.link(a).bandwidth > fabric.link(b).bandwidth; });
  Groups groups(fabric);
  for (const LinkId id : links) {
    groups.join(fabric.link(id));
    if (groups.rank_groups() == 1) return fabric.link(id).bandwidth;
  }
  CHECK(false) << "a fabric whose ranks are not joined";
  return {};
}

Boxes find_boxes(const Fabric& fabric) {
  Boxes boxes;
  boxes.ranks = by_bandwidth_tier(fabric);
  if (boxes.ranks.empty()) boxes.ranks = by_direct_links(fabric);
  if (boxes.ranks.empty()) {
    boxes.ranks = by_first_switch(fabric);
    if (boxes.ranks.size() < 2 || boxes.ranks.size() == fabric.ranks().size()) {
      boxes.ranks = {std::vector<NodeId>(fabric.ranks().begin(), fabric.ranks().end())};
    }
  }
  place_switches(fabric, boxes);
  return boxes;
}

}  // namespace banyan::fabric
