// SharedHosts: several ranks on one host, as the processes of several tenants are, or one for each GPU.
//
// A lab is asked for as a network whose ranks are hosts. Plans are made on another fabric: a host with two ranks is a
// switch of its name there, "a", with a cable to each of the ranks "a.0" and "a.1" behind it. The cables of the host
// are those of the network, and carry what all its ranks send; the inner ones stand for its memory and are not
// emulated.
//
// Nodes and links of the network keep their numbers in the fabric, and so do its cables; ranks and inner cables come
// after them. Ranks are numbered host by host. The fabric is the network itself if every host has one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/fabric/route_book.h"

namespace banyan::lab {

class SharedHosts {
 public:
  static constexpr uint32_t kMostRanks = 64;  // of one host
  // The bandwidth of inner cables, in each direction: about what one core copies. It says to planners that they are no
  // bottleneck.
  static Bandwidth inner_bandwidth() { return Bandwidth::gigabytes_per_second(10); }

  // "2": that many on each of so many hosts; "2,1,3": of each host, in the order of the network. Empty where all have
  // one. Throws Error{invalid_input} that names --ranks-per-host.
  static std::vector<uint32_t> parse(const std::string& text, size_t hosts);

  // `ranks_per_host` is empty, for one each, or has a number from 1 to kMostRanks for each rank of the network. Throws
  // Error{invalid_input} when it has not, or when a node of the network is called as a rank will be ("a.0").
  SharedHosts(Fabric network, std::vector<uint32_t> ranks_per_host);

  const Fabric& network() const { return network_; }  // its ranks are the hosts
  const Fabric& fabric() const { return fabric_; }    // that plans are made on
  // Empty when every host has one.
  const std::vector<uint32_t>& ranks_per_host() const { return ranks_per_host_; }

  struct Place {
    NodeId host{};  // in the network, and the same node of the fabric
    uint32_t local = 0, local_size = 1;
  };
  const Place& place(uint32_t rank) const { return places_[rank]; }

  // The routes between ranks, given those between hosts: ranks of a host have its addresses.
  fabric::RouteBook spread(const fabric::RouteBook& between_hosts) const;

 private:
  void add_places();

  Fabric network_;
  std::vector<uint32_t> ranks_per_host_;
  Fabric fabric_;
  std::vector<Place> places_;  // by rank
};

}  // namespace banyan::lab
