#include "banyan/service/view/host_view.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "banyan/service/view/findings.h"
#include "banyan/service/view/slow_links.h"

namespace banyan::service {
namespace {

template <typename Value>
void append(std::vector<Value>& to, std::vector<Value>&& more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  more.clear();
}

// A host knows the cap of its own grant and the rate that it was told last; the smaller one holds for all ranks.
void lower(std::optional<uint64_t>& limit, const std::optional<uint64_t>& other) {
  if (other) limit = std::min(limit.value_or(*other), *other);
}

// A call is as far as the rank is that is least far.
void join(CommunicatorView& joined, CommunicatorView&& other) {
  joined.size = std::max(joined.size, other.size);
  append(joined.hosts, std::move(other.hosts));
  append(joined.ranks, std::move(other.ranks));
  lower(joined.cap, other.cap);
  lower(joined.rate, other.rate);
  joined.progress = std::min(joined.progress, other.progress);
}

void put_in_order(CommunicatorView& communicator) {
  std::sort(communicator.hosts.begin(), communicator.hosts.end());
  communicator.hosts.erase(std::unique(communicator.hosts.begin(), communicator.hosts.end()), communicator.hosts.end());
  std::stable_sort(communicator.ranks.begin(), communicator.ranks.end(),
                   [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
}

std::vector<CommunicatorView> joined_communicators(std::vector<HostView>& hosts) {
  std::map<std::string, CommunicatorView> by_id;
  for (HostView& host : hosts) {
    for (CommunicatorView& each : host.communicators) {
      const auto known = by_id.find(each.id);
      if (known == by_id.end()) {
        by_id.emplace(each.id, std::move(each));
      } else {
        join(known->second, std::move(each));
      }
    }
    host.communicators.clear();
  }
  std::vector<CommunicatorView> all;
  all.reserve(by_id.size());
  for (auto& [id, communicator] : by_id) {
    put_in_order(communicator);
    all.push_back(std::move(communicator));
  }
  std::sort(all.begin(), all.end(), [](const CommunicatorView& a, const CommunicatorView& b) {
    return std::tie(a.tenant, a.name, a.id) < std::tie(b.tenant, b.name, b.id);
  });
  return all;
}

std::vector<LinkView> summed_links(std::vector<HostView>& hosts) {
  std::map<std::string, LinkView> by_name;
  for (HostView& host : hosts) {
    for (LinkView& each : host.links) {
      LinkView& sum = by_name[each.name];
      sum.name = each.name;
      sum.capacity = std::max(sum.capacity, each.capacity);
      for (const auto& [tenant, bytes] : each.bytes_by_tenant) sum.bytes_by_tenant[tenant] += bytes;
    }
    host.links.clear();
  }
  std::vector<LinkView> all;
  all.reserve(by_name.size());
  for (auto& [name, link] : by_name) all.push_back(std::move(link));
  return all;
}

std::vector<WayView> all_ways(std::vector<HostView>& hosts) {
  std::vector<WayView> all;
  for (HostView& host : hosts) append(all, std::move(host.ways));
  return all;
}

}  // namespace

double WayView::bytes() const {
  double sum = 0;
  for (const auto& [tenant, bytes] : bytes_by_tenant) sum += static_cast<double>(bytes);
  return sum;
}

ClusterView merge(std::vector<HostView> hosts, std::vector<UnreachableHost> unreachable, double at) {
  ClusterView cluster;
  cluster.at = at;
  std::sort(hosts.begin(), hosts.end(),
            [](const HostView& a, const HostView& b) { return std::tie(a.name, a.host) < std::tie(b.name, b.host); });
  std::sort(unreachable.begin(), unreachable.end(),
            [](const UnreachableHost& a, const UnreachableHost& b) { return a.host < b.host; });
  cluster.communicators = joined_communicators(hosts);
  cluster.links = summed_links(hosts);
  for (HostView& host : hosts) append(cluster.events, std::move(host.events));
  std::stable_sort(cluster.events.begin(), cluster.events.end(),
                   [](const EventView& a, const EventView& b) { return a.at < b.at; });
  cluster.findings = find_slow_links(all_ways(hosts));
  append(cluster.findings, find_wrong(cluster.communicators, unreachable));
  cluster.hosts = std::move(hosts);
  cluster.unreachable = std::move(unreachable);
  return cluster;
}

}  // namespace banyan::service
