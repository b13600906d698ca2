// Groups of things in a fabric that are joined to one another, and circles of such things.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "banyan/picture/layout.h"

namespace banyan::picture {
namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

// Direct cables between these ranks, by the ranks' places, with the bandwidth of both directions together.
std::map<std::pair<uint32_t, uint32_t>, uint64_t> cables_among(const Fabric& fabric, const std::vector<NodeId>& ranks) {
  std::map<NodeId, uint32_t> place;
  for (uint32_t i = 0; i < ranks.size(); ++i) place[ranks[i]] = i;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> cables;
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    for (const LinkId id : fabric.out_links(ranks[i])) {
      const auto other = place.find(fabric.link(id).to);
      if (other != place.end()) cables[std::minmax(i, other->second)] += fabric.link(id).bandwidth.bytes_per_second();
    }
  }
  return cables;
}

std::vector<std::vector<NodeId>> named(const std::vector<std::vector<uint32_t>>& groups,
                                       const std::vector<NodeId>& ranks) {
  std::vector<std::vector<NodeId>> result;
  for (const auto& group : groups) {
    result.emplace_back();
    for (const uint32_t member : group) result.back().push_back(ranks[member]);
  }
  return result;
}

}  // namespace

std::vector<std::vector<uint32_t>> cliques_of(size_t count, const Pairs& pairs) {
  std::vector<std::set<uint32_t>> known(count);
  for (const auto& [a, b] : pairs) {
    known[a].insert(b);
    known[b].insert(a);
  }
  std::vector<std::vector<uint32_t>> cliques;
  std::vector<uint32_t> clique_of;
  for (uint32_t thing = 0; thing < count; ++thing) {
    std::set<uint32_t> candidates;
    for (const uint32_t other : known[thing]) {
      if (other < thing) candidates.insert(clique_of[other]);
    }
    const auto own = std::ranges::find_if(candidates, [&](uint32_t number) {
      return std::ranges::all_of(cliques[number], [&](uint32_t other) { return known[thing].contains(other); });
    });
    clique_of.push_back(own == candidates.end() ? static_cast<uint32_t>(cliques.size()) : *own);
    cliques.resize(std::max<size_t>(cliques.size(), clique_of.back() + 1));
    cliques[clique_of.back()].push_back(thing);
  }
  return cliques;
}

fabric::Boxes boxes_to_draw(const Fabric& fabric) {
  fabric::Boxes boxes = find_boxes(fabric);
  if (boxes.count() > 1) return boxes;
  fabric::Boxes hubs;  // a box for each switch
  hubs.box_of.resize(fabric.nodes().size(), fabric::Boxes::kNone);
  for (const NodeId rank : fabric.ranks()) {
    for (const LinkId id : fabric.out_links(rank)) {
      const NodeId hub = fabric.link(id).to;
      uint32_t& box = hubs.box_of[index(hub)];
      if (fabric.is_rank(hub)) return boxes;
      if (box == fabric::Boxes::kNone) {
        box = static_cast<uint32_t>(hubs.count());
        hubs.ranks.emplace_back();
      }
      uint32_t& own = hubs.box_of[index(rank)];
      if (own == box) continue;
      if (own != fabric::Boxes::kNone) return boxes;
      own = box;
      hubs.ranks[box].push_back(rank);
    }
  }
  const auto groups = groups_of_boxes(fabric, hubs);
  const bool are_large = std::ranges::all_of(groups, [](const auto& group) { return group.size() > 2; });
  return groups.size() > 1 && are_large ? hubs : boxes;
}

std::vector<std::vector<uint32_t>> groups_of_boxes(const Fabric& fabric, const fabric::Boxes& boxes) {
  if (boxes.count() < 2) return {};
  Pairs pairs;
  for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
    if (boxes.box_of[node] == fabric::Boxes::kNone) return {};
  }
  for (const Link& link : fabric.links()) {
    const uint32_t from = boxes.box_of[index(link.from)], to = boxes.box_of[index(link.to)];
    if (from == to) continue;
    if (fabric.is_rank(link.from) || fabric.is_rank(link.to)) return {};
    pairs.emplace_back(from, to);
  }
  return cliques_of(boxes.count(), pairs);
}

std::vector<std::vector<NodeId>> packages_of(const Fabric& fabric, const std::vector<NodeId>& ranks) {
  const auto cables = cables_among(fabric, ranks);
  uint64_t widest = 0, narrowest = UINT64_MAX;
  for (const auto& [pair, bandwidth] : cables) {
    widest = std::max(widest, bandwidth);
    narrowest = std::min(narrowest, bandwidth);
  }
  if (widest <= narrowest) return {};
  Pairs pairs;
  for (const auto& [pair, bandwidth] : cables) {
    if (bandwidth == widest) pairs.push_back(pair);
  }
  const auto groups = cliques_of(ranks.size(), pairs);
  size_t inside = 0;
  for (const auto& group : groups) {
    if (group.size() < 2 || group.size() > 4) return {};
    inside += group.size() * (group.size() - 1) / 2;
  }
  // All of the widest cables are inside of packages, else they mean something else.
  return groups.size() > 1 && inside == pairs.size() ? named(groups, ranks) : std::vector<std::vector<NodeId>>{};
}

std::vector<std::vector<NodeId>> quads_of(const Fabric& fabric, const std::vector<NodeId>& ranks) {
  if (ranks.size() != 8) return {};
  Pairs pairs;
  for (const auto& [pair, bandwidth] : cables_among(fabric, ranks)) pairs.push_back(pair);
  auto groups = cliques_of(ranks.size(), pairs);
  if (groups.size() != 2 || groups[0].size() != 4 || pairs.size() != 16) return {};
  std::vector<uint32_t> partners;
  for (const uint32_t member : groups[0]) {
    for (const uint32_t other : groups[1]) {
      if (std::ranges::find(pairs, std::minmax({member, other})) != pairs.end()) partners.push_back(other);
    }
  }
  if (std::set(partners.begin(), partners.end()).size() != 4) return {};
  groups[1] = partners;
  return named(groups, ranks);
}

std::vector<std::array<uint32_t, 3>> grid_places(const Fabric& fabric) {
  if (fabric.ranks().size() < fabric.nodes().size()) return {};
  std::vector<std::array<uint32_t, 3>> places;
  for (const NodeId rank : fabric.ranks()) {
    std::string_view name = fabric.name(rank);
    std::array<uint32_t, 3> place{};
    size_t axes = 0;
    for (const char axis : {'x', 'y', 'z'}) {
      if (name.empty() && axes >= 2) break;
      if (name.empty() || name.front() != axis) return {};
      const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), place[axes]);
      if (error != std::errc() || place[axes] > 20'000) return {};
      name.remove_prefix(static_cast<size_t>(end - name.data()));
      ++axes;
    }
    if (!name.empty()) return {};
    places.push_back(place);
  }
  return places;
}

bool looks_alike_all_around(size_t count, const Pairs& pairs) {
  std::set<std::pair<uint32_t, uint32_t>> known;
  for (const auto& [a, b] : pairs) known.insert(std::minmax(a, b));
  const auto next = [&](uint32_t thing) { return static_cast<uint32_t>((thing + 1) % count); };
  return std::ranges::all_of(
      known, [&](const auto& pair) { return known.contains(std::minmax(next(pair.first), next(pair.second))); });
}

Ring ring_of(size_t count, Extent thing, RingShape shape) {
  const auto [turn, gap, least_radius] = shape;
  const double diagonal = std::hypot(thing.width + gap, thing.height + gap);
  const double around = diagonal / (2 * std::sin(std::numbers::pi / static_cast<double>(count)));
  const double radius = count == 1 ? 0 : std::max(around, least_radius);
  Ring ring{.thing = thing};
  Point least{HUGE_VAL, HUGE_VAL}, most{-HUGE_VAL, -HUGE_VAL};
  for (size_t i = 0; i < count; ++i) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(i) + turn) / static_cast<double>(count);
    ring.middles.push_back({radius * std::sin(angle), -radius * std::cos(angle)});
    least = {std::min(least.x, ring.middles.back().x), std::min(least.y, ring.middles.back().y)};
    most = {std::max(most.x, ring.middles.back().x), std::max(most.y, ring.middles.back().y)};
  }
  for (Point& middle : ring.middles) {
    middle = {middle.x - least.x + thing.width / 2, middle.y - least.y + thing.height / 2};
  }
  ring.size = {most.x - least.x + thing.width, most.y - least.y + thing.height};
  return ring;
}

}  // namespace banyan::picture
