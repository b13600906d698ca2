#include "banyan/predict/simulation/rerouting.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::predict {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// By node, the number of its strongly connected component over the links that are not down (Kosaraju's algorithm: in
// the order of a depth-first search, last ended first, what reaches a node backwards belongs to it).
template <typename IsDown>
std::vector<uint32_t> find_parts(const Fabric& fabric, IsDown is_down) {
  const uint32_t count = static_cast<uint32_t>(fabric.nodes().size());
  // First search: nodes in the order in which a depth-first search leaves them.
  std::vector<NodeId> ended;
  std::vector<bool> seen(count, false);
  std::vector<std::pair<NodeId, size_t>> stack;  // and the next of its links
  for (uint32_t first = 0; first < count; ++first) {
    if (seen[first]) continue;
    seen[first] = true;
    stack.emplace_back(NodeId{first}, 0);
    while (!stack.empty()) {
      const NodeId node = stack.back().first;
      const std::span<const LinkId> out = fabric.out_links(node);
      if (stack.back().second == out.size()) {
        ended.push_back(node);
        stack.pop_back();
        continue;
      }
      const LinkId link = out[stack.back().second++];
      const NodeId to = fabric.link(link).to;
      if (is_down(link) || seen[index(to)]) continue;
      seen[index(to)] = true;
      stack.emplace_back(to, 0);
    }
  }
  // Second search: backwards from the node that was left last. It reaches just the nodes that reach each other.
  std::vector<uint32_t> part_of(count, kNone);
  std::vector<NodeId> reached;
  uint32_t parts = 0;
  for (size_t i = ended.size(); i-- > 0;) {
    if (part_of[index(ended[i])] != kNone) continue;
    part_of[index(ended[i])] = parts;
    reached.push_back(ended[i]);
    while (!reached.empty()) {
      const NodeId node = reached.back();
      reached.pop_back();
      for (const LinkId link : fabric.in_links(node)) {
        const NodeId from = fabric.link(link).from;
        if (is_down(link) || part_of[index(from)] != kNone) continue;
        part_of[index(from)] = parts;
        reached.push_back(from);
      }
    }
    ++parts;
  }
  return part_of;
}

}  // namespace

struct Rerouting::Part {
  std::vector<NodeId> node_of;  // by node of the whole fabric, where it is in this part
  std::vector<LinkId> link_of;  // by link of this part: that of the whole fabric
  fabric::Routing routing;
  std::unique_ptr<CollectivePlans> plans;
};

Rerouting::Rerouting(Fabric fabric, const LinkTimeline& timeline, PlansOnFabric plans_for)
    : fabric_(std::move(fabric)), timeline_(timeline), plans_for_(std::move(plans_for)) {}
Rerouting::~Rerouting() = default;

Rerouting::State& Rerouting::state(uint32_t number) {
  State& state = states_[number];
  if (state.part_of.empty()) {
    state.part_of = find_parts(fabric_, [&](LinkId link) { return timeline_.is_down(number, link); });
  }
  return state;
}

Rerouting::Part* Rerouting::part(uint32_t state_number, std::span<const NodeId> nodes) {
  // Nodes in different parts have no way to each other.
  State& in = state(state_number);
  const uint32_t number = in.part_of[index(nodes.front())];
  for (const NodeId node : nodes) {
    if (in.part_of[index(node)] != number) return nullptr;
  }
  // A part is made when it is first asked for, and kept.
  if (const auto known = in.parts.find(number); known != in.parts.end()) return known->second.get();
  // The part becomes a fabric of its own, with the bandwidths of now. Its numbers are kept beside those of the whole.
  Fabric::Builder builder;
  std::vector<NodeId> node_of(fabric_.nodes().size());
  std::vector<LinkId> link_of;
  for (uint32_t node = 0; node < node_of.size(); ++node) {
    if (in.part_of[node] == number) node_of[node] = builder.add_node(fabric_.node(NodeId{node}));
  }
  for (uint32_t i = 0; i < fabric_.links().size(); ++i) {
    Link link = fabric_.link(LinkId{i});
    const bool is_inside = in.part_of[index(link.from)] == number && in.part_of[index(link.to)] == number;
    if (!is_inside || timeline_.is_down(state_number, LinkId{i})) continue;
    link.from = node_of[index(link.from)];
    link.to = node_of[index(link.to)];
    link.bandwidth = timeline_.bandwidth(state_number, LinkId{i}, link.bandwidth);
    builder.add_link(link);
    link_of.push_back(LinkId{i});
  }
  const Fabric left = std::move(builder).build();
  auto made = std::make_unique<Part>(Part{.node_of = std::move(node_of),
                                          .link_of = std::move(link_of),
                                          .routing = fabric::Routing(left),
                                          .plans = plans_for_(left)});
  return in.parts.emplace(number, std::move(made)).first->second.get();
}

std::optional<std::vector<LinkId>> Rerouting::way(uint32_t state_number, NodeId from, NodeId to) {
  const NodeId ends[] = {from, to};
  Part* left = part(state_number, ends);
  if (left == nullptr) return std::nullopt;
  std::vector<LinkId> way;
  left->routing.find(left->node_of[index(from)], left->node_of[index(to)], 0, way);
  for (LinkId& link : way) link = left->link_of[index(link)];
  return way;
}

std::optional<Footprint> Rerouting::footprint(uint32_t state_number, const CollectiveCall& call) {
  Part* left = part(state_number, call.members);
  if (left == nullptr) return std::nullopt;
  std::vector<NodeId> members;
  for (const NodeId member : call.members) members.push_back(left->node_of[index(member)]);
  // The call goes in with the part's numbers of nodes, its links come back with those of the whole.
  CollectiveCall there = call;
  there.members = members;
  try {
    Footprint footprint = left->plans->footprint(there);
    for (FluidHop& hop : footprint.hops) hop.link = index(left->link_of[hop.link]);
    return footprint;
  } catch (const Error& error) {
    // Plans that do not support what is left mean that there is no path.
    if (error.code() != ErrorCode::unsupported) throw;
    return std::nullopt;
  }
}

}  // namespace banyan::predict
