// LabPlan: how a fabric becomes hosts with addresses and routes. Data only; touches nothing.
//
// Every node is a host of its own with a network stack of its own, every cable a pair of interfaces "cable<number>".
// All hosts forward, as ranks of direct-connect clusters do. Addresses (a lab is a world of its own, so they are the
// same in each):
//
//   10.0.0.0/10     the primary address of each host, on its loopback; of node n, 10.0.0.1 + n
//   10.64.0.0/10    further addresses of the ends of cables at ranks
//   10.128.0.0/9    cable c: a network of four addresses from 10.128.0.0 + 4 c, .1 of its end with the lower node
//
// A route of a plan is chosen by a pair of addresses. Packets to an address of rank b on cable c arrive over c,
// since they are routed to the other end of c first; packets from an address of rank a on cable d leave over d, by a
// rule. If several shortest paths lead through the switches in between, the addresses of an end take turns to stand for
// them. Everything else goes by the path of the fewest hops, and among those by the widest; through switches where that
// is possible.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "banyan/fabric/cables.h"
#include "banyan/fabric/fabric.h"
#include "banyan/fabric/route_book.h"

namespace banyan::lab {

struct Address {
  uint32_t bits = 0;
  std::string to_string() const;  // "10.0.0.1"
  auto operator<=>(const Address&) const = default;
};

// The end of a cable at a host.
struct Port {
  uint32_t cable = 0;
  Address address, peer;          // of the cable's network
  std::vector<Address> others{};  // further ones of this end
  uint64_t bytes_per_second = 0;  // outwards

  std::string interface() const { return "cable" + std::to_string(cable); }
  std::vector<Address> addresses() const;  // its own and the others
};

// The next hop of a host for an address.
struct RouteEntry {
  Address to;
  std::optional<uint32_t> cable = {};  // nothing: cannot be reached
  std::optional<Address> via = {};     // the next host, when it is not the target's own interface
  bool operator==(const RouteEntry&) const = default;
};

struct Host {
  NodeId node{};
  Address primary;
  std::vector<Port> ports = {};  // by cable
};

class LabPlan {
 public:
  static constexpr size_t kMaxNodes = 1024;
  static constexpr uint32_t kMaxAddresses = 16;  // of one end of a cable
  // A cable of one direction gets the other one, too, at 1 / kAcknowledgements of its rate, for acknowledgements.
  static constexpr uint64_t kAcknowledgements = 100;

  // Throws Error{unsupported} beyond kMaxNodes.
  explicit LabPlan(const Fabric& fabric);

  const Fabric& fabric() const { return fabric_; }
  const fabric::Cables& cables() const { return cables_; }
  const std::vector<Host>& hosts() const { return hosts_; }  // by node
  const Host& host(NodeId node) const { return hosts_[index(node)]; }
  const Port& port(NodeId node, uint32_t cable) const;  // the end of a cable of this node

  // The routes of every host to every address of a rank but its own, when these cables are cut. Primary addresses are
  // then reached by another path, as routing protocols see to; the others stand for their paths, whole or cut.
  // O(addresses * links).
  std::vector<std::vector<RouteEntry>> routes(const std::set<uint32_t>& cut) const;
  // The paths between ranks through switches that addresses can choose, each direct or shortest behind its first cable.
  fabric::RouteBook route_book() const;

 private:
  struct Way;  // towards a node, see lab_plan.cc
  std::vector<Way> ways_to(NodeId target, std::optional<NodeId> avoided, const std::set<uint32_t>& cut) const;
  uint32_t choose(const std::vector<Way>& ways, NodeId at, uint32_t number) const;
  std::optional<std::vector<uint32_t>> follow(const std::vector<Way>& ways, NodeId from, NodeId to,
                                              uint32_t number) const;
  void add_addresses(NodeId node, Port& port);
  RouteEntry entry_for(Address to, NodeId from, const std::vector<Way>& ways, uint32_t number) const;
  void add_routes_to_port(NodeId node, const Port& port, std::vector<std::vector<RouteEntry>>& routes) const;

  Fabric fabric_;
  fabric::Cables cables_;
  std::vector<Host> hosts_;
};

// The fabric with every bandwidth multiplied, at least 1 kB/s each. Throws Error{invalid_input} when it would exceed
// what a Bandwidth can be.
Fabric scaled(const Fabric& fabric, uint64_t numerator, uint64_t denominator);

}  // namespace banyan::lab
