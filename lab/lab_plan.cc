#include "lab/lab_plan.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::lab {
namespace {

constexpr uint32_t kPrimaries = 10u << 24, kFurther = kPrimaries + (64u << 16), kNetworks = kPrimaries + (128u << 16);
// A way through a rank counts as so many hops through switches.
constexpr uint32_t kRankHops = 1 << 16;
constexpr uint32_t kFar = UINT32_MAX;

}  // namespace

std::string Address::to_string() const {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += std::to_string(bits >> shift & 255) + (shift > 0 ? "." : "");
  return text;
}

std::vector<Address> Port::addresses() const {
  std::vector<Address> all{address};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// How a node comes nearer to the target: the cables that lead there on shortest ways, the widest first.
struct LabPlan::Way {
  uint32_t hops = kFar;
  uint64_t width = 0;  // of the widest shortest way
  uint32_t count = 0;  // of shortest ways, at most kMaxAddresses
  std::vector<uint32_t> next;
};

LabPlan::LabPlan(const Fabric& fabric) : fabric_(fabric), cables_(fabric) {
  if (fabric.nodes().size() > kMaxNodes) {
    throw Error(ErrorCode::unsupported, std::to_string(fabric.nodes().size()) +
                                            " nodes are too many hosts for one machine; at most " +
                                            std::to_string(kMaxNodes) + " are allowed");
  }
  for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
    hosts_.push_back({.node = NodeId{node}, .primary = {kPrimaries + 1 + node}});
  }
  for (uint32_t number = 0; number < cables_.all().size(); ++number) {
    const fabric::Cable& cable = cables_[number];
    for (const NodeId end : {cable.a, cable.b}) {
      const Address a{kNetworks + 4 * number + 1}, b{kNetworks + 4 * number + 2};
      const LinkId link = cable.from(end).value_or(cable.from(cable.other_end(end)).value_or(LinkId{}));
      uint64_t rate = fabric.link(link).bandwidth.bytes_per_second();
      if (!cable.from(end)) rate = std::max<uint64_t>(rate / kAcknowledgements, 1000);
      hosts_[index(end)].ports.push_back({.cable = number,
                                          .address = end == cable.a ? a : b,
                                          .peer = end == cable.a ? b : a,
                                          .bytes_per_second = rate});
    }
  }
  for (const NodeId rank : fabric.ranks()) {
    for (Port& port : hosts_[index(rank)].ports) add_addresses(rank, port);
  }
}

// As many as there are shortest ways, through switches, from where any other rank enters.
void LabPlan::add_addresses(NodeId node, Port& port) {
  const NodeId entrance = cables_[port.cable].other_end(node);
  if (fabric_.is_rank(entrance)) return;
  const std::vector<Way> ways = ways_to(entrance, node, {});
  uint32_t count = 1;
  for (const NodeId rank : fabric_.ranks()) {
    if (rank == node) continue;
    for (const LinkId out : fabric_.out_links(rank)) {
      const Way& way = ways[index(fabric_.link(out).to)];
      if (way.hops < kRankHops) count = std::max(count, way.count);
    }
  }
  const uint32_t end = 2 * port.cable + (node == cables_[port.cable].a ? 0 : 1);
  for (uint32_t i = 1; i < count; ++i) port.others.push_back({kFurther + end * kMaxAddresses + i});
}

const Port& LabPlan::port(NodeId node, uint32_t cable) const {
  const std::vector<Port>& ports = host(node).ports;
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& each) { return each.cable == cable; });
  CHECK(found != ports.end());
  return *found;
}

// Dijkstra's algorithm from the target backwards, hops first and then widths.
std::vector<LabPlan::Way> LabPlan::ways_to(NodeId target, std::optional<NodeId> avoided,
                                           const std::set<uint32_t>& cut) const {
  std::vector<Way> ways(hosts_.size());
  ways[index(target)] = {.hops = 0, .width = std::numeric_limits<uint64_t>::max(), .count = 1, .next = {}};
  using Entry = std::pair<uint32_t, NodeId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.emplace(0, target);
  std::vector<bool> is_done(hosts_.size());
  std::vector<NodeId> order;
  while (!queue.empty()) {
    const NodeId node = queue.top().second;
    queue.pop();
    if (is_done[index(node)]) continue;
    is_done[index(node)] = true;
    order.push_back(node);
    const uint32_t step = node != target && fabric_.is_rank(node) ? kRankHops : 1;
    for (const LinkId in : fabric_.in_links(node)) {
      const NodeId from = fabric_.link(in).from;
      if (from == avoided || cut.contains(cables_.of(in))) continue;
      const uint32_t hops = ways[index(node)].hops + step;
      if (hops >= ways[index(from)].hops) continue;
      ways[index(from)].hops = hops;
      queue.emplace(hops, from);
    }
  }
  for (const NodeId node : order) {
    if (node == target) continue;
    Way& way = ways[index(node)];
    std::vector<std::pair<uint64_t, uint32_t>> next;  // width and cable
    for (const LinkId out : fabric_.out_links(node)) {
      const NodeId to = fabric_.link(out).to;
      const uint32_t step = to != target && fabric_.is_rank(to) ? kRankHops : 1;
      const Way& rest = ways[index(to)];
      if (rest.hops == kFar || rest.hops + step != way.hops || cut.contains(cables_.of(out))) continue;
      next.emplace_back(std::min(rest.width, fabric_.link(out).bandwidth.bytes_per_second()), cables_.of(out));
      way.count = std::min(kMaxAddresses, way.count + rest.count);
    }
    std::stable_sort(next.begin(), next.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    way.width = next.front().first;
    for (const auto& [width, cable] : next) way.next.push_back(cable);
  }
  return ways;
}

// The cable by which the way with this number goes on. Numbers beyond the last begin again, at each node: where ways
// divide several times, counts are products, so that all combinations have a number.
uint32_t LabPlan::choose(const std::vector<Way>& ways, NodeId at, uint32_t number) const {
  const Way& way = ways[index(at)];
  uint32_t left = number % way.count;
  for (const uint32_t cable : way.next) {
    const uint32_t count = ways[index(cables_[cable].other_end(at))].count;
    if (left < count) return cable;
    left -= count;
  }
  return way.next.back();
}

// The cables from one node to the target of `ways`; nothing when ranks are in between, or there is no way.
std::optional<std::vector<uint32_t>> LabPlan::follow(const std::vector<Way>& ways, NodeId from, NodeId to,
                                                     uint32_t number) const {
  if (ways[index(from)].hops == kFar) return std::nullopt;
  std::vector<uint32_t> cables;
  for (NodeId at = from; at != to;) {
    if (fabric_.is_rank(at)) return std::nullopt;
    cables.push_back(choose(ways, at, number));
    at = cables_[cables.back()].other_end(at);
  }
  return cables;
}

RouteEntry LabPlan::entry_for(Address to, NodeId from, const std::vector<Way>& ways, uint32_t number) const {
  if (ways[index(from)].hops == kFar) return {.to = to};
  const uint32_t cable = choose(ways, from, number);
  return {.to = to, .cable = cable, .via = port(from, cable).peer};
}

void LabPlan::add_routes_to_port(NodeId node, const Port& port, std::vector<std::vector<RouteEntry>>& routes) const {
  const NodeId entrance = cables_[port.cable].other_end(node);
  const std::vector<Way> ways = ways_to(entrance, node, {});
  const std::vector<Address> addresses = port.addresses();
  for (const Host& from : hosts_) {
    if (from.node == node) continue;
    for (uint32_t number = 0; number < addresses.size(); ++number) {
      if (from.node != entrance) {
        routes[index(from.node)].push_back(entry_for(addresses[number], from.node, ways, number));
      } else if (number > 0) {  // else its own network
        routes[index(from.node)].push_back({.to = addresses[number], .cable = port.cable, .via = port.address});
      }
    }
  }
}

std::vector<std::vector<RouteEntry>> LabPlan::routes(const std::set<uint32_t>& cut) const {
  std::vector<std::vector<RouteEntry>> routes(hosts_.size());
  for (const NodeId rank : fabric_.ranks()) {
    const std::vector<Way> ways = ways_to(rank, std::nullopt, cut);
    for (const Host& from : hosts_) {
      if (from.node == rank) continue;
      routes[index(from.node)].push_back(entry_for(host(rank).primary, from.node, ways, 0));
    }
    for (const Port& each : host(rank).ports) add_routes_to_port(rank, each, routes);
  }
  return routes;
}

fabric::RouteBook LabPlan::route_book() const {
  fabric::RouteBook book;
  struct End {
    NodeId rank, entrance;
    const Port* port;
    std::vector<Way> ways;  // to the entrance
  };
  std::vector<End> ends;
  for (const NodeId rank : fabric_.ranks()) {
    for (const Port& each : host(rank).ports) {
      const NodeId entrance = cables_[each.cable].other_end(rank);
      ends.push_back({.rank = rank, .entrance = entrance, .port = &each, .ways = ways_to(entrance, rank, {})});
    }
  }
  for (const End& a : ends) {
    for (const End& b : ends) {
      if (b.rank <= a.rank) continue;
      if (a.port->cable == b.port->cable) {
        book.add({.from = a.rank, .to = b.rank, .cables = {a.port->cable}},
                 {.from = a.port->address.to_string(), .to = b.port->address.to_string()});
        continue;
      }
      if (fabric_.is_rank(a.entrance) || fabric_.is_rank(b.entrance)) continue;
      const std::vector<Address> as = a.port->addresses(), bs = b.port->addresses();
      for (uint32_t j = 0; j < bs.size(); ++j) {
        const auto forth = follow(b.ways, a.entrance, b.entrance, j);
        for (uint32_t i = 0; forth && i < as.size(); ++i) {
          auto back = follow(a.ways, b.entrance, a.entrance, i);
          if (!back || !std::equal(forth->begin(), forth->end(), back->rbegin(), back->rend())) continue;
          std::vector<uint32_t> cables{a.port->cable};
          cables.insert(cables.end(), forth->begin(), forth->end());
          cables.push_back(b.port->cable);
          book.add({.from = a.rank, .to = b.rank, .cables = std::move(cables)},
                   {.from = as[i].to_string(), .to = bs[j].to_string()});
          break;
        }
      }
    }
  }
  return book;
}

Fabric scaled(const Fabric& fabric, uint64_t numerator, uint64_t denominator) {
  constexpr uint64_t kLeast = 1000;
  Fabric::Builder builder;
  for (const Node& node : fabric.nodes()) builder.add_node(node);
  for (Link link : fabric.links()) {
    const auto exact = static_cast<unsigned __int128>(link.bandwidth.bytes_per_second()) * numerator / denominator;
    if (exact > Bandwidth::kMaxBytesPerSecond) {
      throw invalid("makes links faster than any that can be described");
    }
    link.bandwidth = Bandwidth::bytes_per_second(std::max(static_cast<uint64_t>(exact), kLeast));
    builder.add_link(link);
  }
  for (const fabric::Permutation& symmetry : fabric.symmetries()) builder.add_symmetry(symmetry);
  return std::move(builder).build();
}

}  // namespace banyan::lab
