#include "banyan/compose/job_network.h"

#include <algorithm>
#include <set>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/fabric/text.h"

namespace banyan::compose {
namespace {

// Rank i is "rank<i>". What hosts and networks are like today; only ratios matter.
Fabric fabric_of_hosts(const std::vector<uint32_t>& host_of_rank) {
  std::string text;
  uint32_t hosts = 0;
  for (const uint32_t host : host_of_rank) hosts = std::max(hosts, host + 1);
  const bool is_one = hosts == 1;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    text += "rank" + std::to_string(rank) + " <-> swhost" + std::to_string(host_of_rank[rank]) + " 10 GB/s; ";
  }
  for (uint32_t host = 0; host < hosts && !is_one; ++host) {
    text += "swhost" + std::to_string(host) + " <-> swnet 3 GB/s; ";
  }
  return fabric::parse_fabric_text(text, "the hosts of the job");
}

// ---- Ranks are processes ----

JobNetwork network_of_processes(Fabric fabric, const run::RankLayout& layout, const std::string& where) {
  const size_t ranks = layout.members.size();
  std::vector<NodeId> nodes(fabric.ranks().begin(), fabric.ranks().end());
  if (nodes.size() != ranks) {
    if (nodes.size() != layout.job_size) {
      throw Error(ErrorCode::mismatch,
                  "this fabric has " + std::to_string(nodes.size()) + " ranks, the communicator has " +
                      std::to_string(ranks) + " and the job " + std::to_string(layout.job_size),
                  where);
    }
    std::vector<NodeId> members;
    for (const uint32_t member : layout.members) members.push_back(nodes[member]);
    nodes = std::move(members);
  }
  return {.given = fabric, .planned = fabric, .ranks = nodes, .places = nodes};
}

// ---- Ranks are hosts ----

NodeId host_node(const Fabric& cluster, const std::string& name, const std::string& where) {
  const std::optional<NodeId> node = cluster.find(name);
  if (node && cluster.is_rank(*node)) return *node;
  std::string message = "a host of the communicator is node '" + name + "', which ";
  if (node) {
    message += "is a switch of the fabric";
  } else {
    message += "the fabric does not have";
    const std::string near = fabric::nearest_name(name, cluster.nodes());
    if (!near.empty()) message += " (did you mean '" + near + "'?)";
  }
  throw Error(ErrorCode::not_found, message + "; start the daemon with --node NAME, a rank of the fabric", where);
}

std::vector<NodeId> host_nodes(const Fabric& cluster, const std::vector<std::string>& names, const std::string& where) {
  std::vector<NodeId> nodes;
  std::set<NodeId> seen;
  for (const std::string& name : names) {
    const NodeId node = host_node(cluster, name, where);
    if (!seen.insert(node).second) {
      throw Error(ErrorCode::invalid_input,
                  "two hosts of the communicator are node '" + name +
                      "' of the fabric; start the daemon of each with a --node NAME of its own",
                  where);
    }
    nodes.push_back(node);
  }
  return nodes;
}

bool has_several_neighbours(const Fabric& fabric, NodeId node) {
  std::set<NodeId> neighbours;
  for (const LinkId link : fabric.out_links(node)) neighbours.insert(fabric.link(link).to);
  for (const LinkId link : fabric.in_links(node)) neighbours.insert(fabric.link(link).from);
  return neighbours.size() > 1;
}

Bandwidth times(Bandwidth bandwidth, uint64_t factor) {
  const uint64_t most = Bandwidth::kMaxBytesPerSecond, rate = bandwidth.bytes_per_second();
  return Bandwidth::bytes_per_second(rate > most / factor ? most : rate * factor);
}

Bandwidth leaving_bandwidth(const Fabric& fabric, NodeId node) {
  uint64_t sum = 0;
  for (const LinkId link : fabric.out_links(node)) {
    sum = std::min(sum + fabric.link(link).bandwidth.bytes_per_second(), Bandwidth::kMaxBytesPerSecond);
  }
  return Bandwidth::bytes_per_second(sum);
}

// A name that is not taken, since a fabric may have any names.
std::string free_name(const Fabric::Builder& builder, std::string name) {
  while (builder.find(name)) name += "_";
  return name;
}

// The cluster's fabric with the ranks of some hosts behind them.
class Expansion {
 public:
  // `ranks`: how many each node has behind it.
  Expansion(const Fabric& cluster, const std::vector<uint32_t>& ranks)
      : cluster_(cluster), ranks_(ranks), leaving_(cluster.nodes().size()) {
    for (uint32_t number = 0; number < cluster.nodes().size(); ++number) {
      Node node = cluster.nodes()[number];
      if (is_split(number)) node.kind = fabric::NodeKind::switch_;
      leaving_[number] = builder_.add_node(std::move(node));
    }
    for (uint32_t number = 0; number < cluster.nodes().size(); ++number) {
      if (!is_split(number) || !has_several_neighbours(cluster, NodeId{number})) continue;
      leaving_[number] = builder_.add_switch(free_name(builder_, cluster.name(NodeId{number}) + ".out"));
    }
    for (Link link : cluster.links()) {
      link.from = leaving_[index(link.from)];
      builder_.add_link(link);
    }
    for (uint32_t number = 0; number < cluster.nodes().size(); ++number) {
      if (is_split(number) && leaving_[number] != NodeId{number}) {
        builder_.add_link({.from = leaving_[number],
                           .to = NodeId{number},
                           .bandwidth = times(memory_bandwidth(NodeId{number}), ranks_[number])});
      }
    }
  }

  // The node of the i-th rank of a host.
  NodeId add_rank(NodeId host, uint32_t i) {
    if (!is_split(index(host))) return host;
    const NodeId rank = builder_.add_rank(free_name(builder_, cluster_.name(host) + "." + std::to_string(i)));
    const Bandwidth bandwidth = memory_bandwidth(host);
    builder_.add_link({.from = rank, .to = leaving_[index(host)], .bandwidth = bandwidth});
    builder_.add_link({.from = host, .to = rank, .bandwidth = bandwidth});
    return rank;
  }

  Fabric build() && { return std::move(builder_).build(); }

 private:
  bool is_split(uint32_t node) const { return ranks_[node] > 1; }
  Bandwidth memory_bandwidth(NodeId host) const { return times(leaving_bandwidth(cluster_, host), kMemorySpeedup); }

  const Fabric& cluster_;
  const std::vector<uint32_t>& ranks_;
  Fabric::Builder builder_;
  std::vector<NodeId> leaving_;  // by node of the cluster's fabric: where the links begin that leave it
};

JobNetwork network_of_hosts(const Fabric& cluster, const run::RankLayout& layout, const std::string& where) {
  const std::vector<NodeId> hosts = host_nodes(cluster, layout.node_of_host, where);
  std::vector<NodeId> places;
  std::vector<uint32_t> ranks(cluster.nodes().size(), 0);
  for (const uint32_t host : layout.host_of_rank) {
    CHECK(host < hosts.size()) << "host " << host << " of " << hosts.size() << " has no node";
    places.push_back(hosts[host]);
    ++ranks[index(hosts[host])];
  }
  const bool is_split = std::any_of(ranks.begin(), ranks.end(), [](uint32_t count) { return count > 1; });
  if (!is_split) return {.given = cluster, .planned = cluster, .ranks = places, .places = places};
  Expansion expansion(cluster, ranks);
  std::vector<NodeId> nodes;
  std::vector<uint32_t> so_far(cluster.nodes().size(), 0);
  for (const NodeId place : places) nodes.push_back(expansion.add_rank(place, so_far[index(place)]++));
  return {.given = cluster,
          .planned = std::move(expansion).build(),
          .ranks = std::move(nodes),
          .places = std::move(places)};
}

}  // namespace

JobNetwork job_network(const std::optional<Fabric>& fabric, const run::RankLayout& layout, const std::string& where) {
  if (fabric && !layout.node_of_host.empty()) return network_of_hosts(*fabric, layout, where);
  return network_of_processes(fabric ? *fabric : fabric_of_hosts(layout.host_of_rank), layout, where);
}

}  // namespace banyan::compose
