#include "banyan/plan/baseline_routes.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::plan {

RouteTable::RouteTable(const Fabric& fabric)
    : fabric_(fabric), reach_of_(fabric.nodes().size()), slot_(fabric.nodes().size(), 0) {}

const RouteTable::Reach& RouteTable::reach(NodeId source) {
  std::optional<Reach>& known = reach_of_[index(source)];
  if (!known) known = search(source);
  return *known;
}

RouteTable::Reach RouteTable::search(NodeId source) {
  Reach found;
  const auto leave = [&](NodeId node, uint32_t hops, std::optional<Bandwidth> width) {
    for (const LinkId id : fabric_.out_links(node)) {
      const Link& link = fabric_.link(id);
      if (fabric_.is_rank(link.to)) continue;
      const Reached way{.node = link.to,
                        .hops = hops + 1,
                        .width = width ? std::min(*width, link.bandwidth) : link.bandwidth,
                        .last = id};
      uint32_t& slot = slot_[index(link.to)];
      if (slot == 0) {
        found.push_back(way);
        slot = static_cast<uint32_t>(found.size());
        continue;
      }
      Reached& best = found[slot - 1];
      const bool wider = way.width > best.width || (way.width == best.width && way.last < best.last);
      if (way.hops == best.hops && wider) best = way;
    }
  };
  leave(source, 0, std::nullopt);
  // `found` grows while it is walked: a queue. A switch is complete when its turn comes, since all of the level before
  // have been.
  for (size_t i = 0; i < found.size(); ++i) {
    const Reached here = found[i];
    leave(here.node, here.hops, here.width);
  }
  for (const Reached& way : found) slot_[index(way.node)] = 0;
  std::sort(found.begin(), found.end(), [](const Reached& a, const Reached& b) { return a.node < b.node; });
  return found;
}

const RouteTable::Reached* RouteTable::find(const Reach& reach, NodeId node) {
  const auto place = std::lower_bound(reach.begin(), reach.end(), node,
                                      [](const Reached& way, NodeId wanted) { return way.node < wanted; });
  return place != reach.end() && place->node == node ? &*place : nullptr;
}

std::optional<RouteTable::Reached> RouteTable::arrive(NodeId from, NodeId to) {
  std::optional<Reached> best;
  const Reach& known = reach(from);
  for (const LinkId id : fabric_.in_links(to)) {
    const Link& link = fabric_.link(id);
    Reached way{.node = to, .hops = 1, .width = link.bandwidth, .last = id};
    if (link.from != from) {
      const Reached* before = find(known, link.from);
      if (before == nullptr) continue;
      way.hops = before->hops + 1;
      way.width = std::min(before->width, link.bandwidth);
    }
    const bool better =
        !best || way.hops < best->hops ||
        (way.hops == best->hops && (way.width > best->width || (way.width == best->width && way.last < best->last)));
    if (better) best = way;
  }
  return best;
}

std::optional<Bandwidth> RouteTable::width(NodeId from, NodeId to) {
  const auto way = arrive(from, to);
  return way ? std::optional(way->width) : std::nullopt;
}

std::vector<LinkId> RouteTable::route(NodeId from, NodeId to) {
  CHECK(from != to) << "a route from '" << fabric_.name(from) << "' to itself";
  std::vector<LinkId> links;
  const auto way = arrive(from, to);
  if (!way) return links;
  const Reach& known = reach(from);
  LinkId last = way->last;
  links.push_back(last);
  while (fabric_.link(last).from != from) {
    const Reached* before = find(known, fabric_.link(last).from);
    CHECK(before != nullptr) << "a route with a hole";
    last = before->last;
    links.push_back(last);
  }
  std::reverse(links.begin(), links.end());
  return links;
}

}  // namespace banyan::plan
