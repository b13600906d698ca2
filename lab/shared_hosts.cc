#include "lab/shared_hosts.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/option.h"
#include "banyan/base/split_list.h"
#include "banyan/fabric/cables.h"

namespace banyan::lab {
namespace {

Fabric populated(const Fabric& network, const std::vector<uint32_t>& ranks_per_host) {
  if (ranks_per_host.empty()) return network;
  Fabric::Builder builder;
  for (Node node : network.nodes()) {
    node.kind = fabric::NodeKind::switch_;
    builder.add_node(std::move(node));
  }
  for (const Link& link : network.links()) builder.add_link(link);
  for (size_t host = 0; host < ranks_per_host.size(); ++host) {
    const NodeId node = network.ranks()[host];
    for (uint32_t local = 0; local < ranks_per_host[host]; ++local) {
      const NodeId rank = builder.add_rank(network.name(node) + "." + std::to_string(local));
      builder.add_cable({.from = node, .to = rank, .bandwidth = SharedHosts::inner_bandwidth()});
    }
  }
  return std::move(builder).build();
}

// Empty where each has one.
std::vector<uint32_t> checked(std::vector<uint32_t> ranks_per_host, size_t hosts) {
  if (ranks_per_host.empty()) return ranks_per_host;
  if (ranks_per_host.size() != hosts) {
    throw invalid(std::to_string(ranks_per_host.size()) + " numbers of ranks, but there are " + std::to_string(hosts) +
                  " hosts; give one number for all, or one each");
  }
  for (const uint32_t count : ranks_per_host) {
    if (count >= 1 && count <= SharedHosts::kMostRanks) continue;
    throw invalid("a host has 1 to " + std::to_string(SharedHosts::kMostRanks) + " ranks, not " +
                  std::to_string(count));
  }
  const bool is_one_each =
      std::all_of(ranks_per_host.begin(), ranks_per_host.end(), [](uint32_t count) { return count == 1; });
  return is_one_each ? std::vector<uint32_t>() : ranks_per_host;
}

}  // namespace

std::vector<uint32_t> SharedHosts::parse(const std::string& text, size_t hosts) {
  std::vector<uint32_t> counts;
  for (const std::string& piece : split_list(text, "--ranks-per-host")) {
    counts.push_back(static_cast<uint32_t>(parse_count(piece, "--ranks-per-host", {.least = 1, .most = kMostRanks})));
  }
  if (counts.size() == 1) counts.resize(hosts, counts[0]);
  return parse_option("--ranks-per-host", [&] { return checked(std::move(counts), hosts); });
}

SharedHosts::SharedHosts(Fabric network, std::vector<uint32_t> ranks_per_host)
    : network_(std::move(network)),
      ranks_per_host_(checked(std::move(ranks_per_host), network_.ranks().size())),
      fabric_(populated(network_, ranks_per_host_)) {
  add_places();
}

void SharedHosts::add_places() {
  for (size_t host = 0; host < network_.ranks().size(); ++host) {
    const uint32_t size = ranks_per_host_.empty() ? 1 : ranks_per_host_[host];
    for (uint32_t local = 0; local < size; ++local) {
      places_.push_back({.host = network_.ranks()[host], .local = local, .local_size = size});
    }
  }
}

fabric::RouteBook SharedHosts::spread(const fabric::RouteBook& between_hosts) const {
  if (ranks_per_host_.empty()) return between_hosts;
  const fabric::Cables cables(fabric_);
  const auto inner = [&](uint32_t rank) { return cables.of(fabric_.out_links(fabric_.ranks()[rank]).front()); };
  fabric::RouteBook book;
  for (uint32_t a = 0; a < places_.size(); ++a) {
    for (uint32_t b = a + 1; b < places_.size(); ++b) {
      const NodeId from = places_[a].host, to = places_[b].host;
      if (from == to) continue;
      for (const fabric::RouteBook::Path& path : between_hosts.paths(from, to)) {
        std::vector<uint32_t> crossed{inner(a)};
        crossed.insert(crossed.end(), path.cables.begin(), path.cables.end());
        crossed.push_back(inner(b));
        book.add({.from = fabric_.ranks()[a], .to = fabric_.ranks()[b], .cables = std::move(crossed)},
                 *between_hosts.find(path));
      }
    }
  }
  return book;
}

}  // namespace banyan::lab
