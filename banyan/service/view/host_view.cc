#include "banyan/service/view/host_view.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "banyan/base/text.h"
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

std::vector<EventView> all_events(std::vector<HostView>& hosts) {
  std::vector<EventView> all;
  for (HostView& host : hosts) append(all, std::move(host.events));
  std::stable_sort(all.begin(), all.end(), [](const EventView& a, const EventView& b) { return a.at < b.at; });
  return all;
}

// What the daemons say of themselves. That they miss the same directory is one finding.
std::vector<FindingView> all_troubles(std::vector<HostView>& hosts) {
  std::vector<FindingView> all;
  std::optional<FindingView> directory;
  std::vector<std::string> missing;
  for (HostView& host : hosts) {
    for (FindingView& each : host.troubles) {
      if (each.kind != kDirectoryTrouble) {
        all.push_back(std::move(each));
        continue;
      }
      if (!directory) directory = std::move(each);
      missing.push_back(host.name);
    }
    host.troubles.clear();
  }
  if (!directory) return all;
  constexpr size_t kMostNamedHosts = 4;
  std::string who;
  for (size_t i = 0; i < std::min(missing.size(), kMostNamedHosts); ++i) who += (i == 0 ? "" : ", ") + missing[i];
  if (missing.size() > kMostNamedHosts) who += " and " + std::to_string(missing.size() - kMostNamedHosts) + " more";
  directory->words = "at " + plural(missing.size(), "host") + " (" + who + "), " + directory->words;
  all.push_back(*std::move(directory));
  return all;
}

// What two daemons of a host have sent along the same links in about the same window.
void join(WayView& joined, const WayView& other) {
  joined.is_whole = joined.is_whole && other.is_whole;
  joined.seconds = std::max(joined.seconds, other.seconds);
  joined.busy_seconds = std::max(joined.busy_seconds, other.busy_seconds);
  if (other.pressed_seconds > joined.pressed_seconds) {
    joined.pressed_seconds = other.pressed_seconds;
    joined.delayed_seconds = other.delayed_seconds;
    joined.round_trip_seconds = other.round_trip_seconds;
  }
  joined.wake_seconds = std::max(joined.wake_seconds, other.wake_seconds);
  for (const auto& [tenant, bytes] : other.bytes_by_tenant) joined.bytes_by_tenant[tenant] += bytes;
  joined.allowed = joined.allowed && other.allowed ? std::optional(*joined.allowed + *other.allowed) : std::nullopt;
}

std::vector<WayView> joined_ways(std::vector<HostView>& daemons) {
  std::vector<WayView> joined;
  for (WayView& way : all_ways(daemons)) {
    const auto same = std::find_if(joined.begin(), joined.end(), [&](const WayView& each) {
      return each.from == way.from && each.to == way.to && each.links == way.links;
    });
    if (same == joined.end()) {
      joined.push_back(std::move(way));
    } else {
      join(*same, way);
    }
  }
  return joined;
}

}  // namespace

double WayView::bytes() const {
  double sum = 0;
  for (const auto& [tenant, bytes] : bytes_by_tenant) sum += static_cast<double>(bytes);
  return sum;
}

HostView as_one_host(std::vector<HostView> daemons) {
  HostView host = daemons.front();
  for (size_t i = 1; i < daemons.size(); ++i) {
    const HostView& older = daemons[i];
    host.clients += older.clients;
    host.memory_bytes += older.memory_bytes;
    host.core_seconds += older.core_seconds;
    for (const auto& [reason, count] : older.refused) host.refused[reason] += count;
    host.replans += older.replans;
    host.events_dropped += older.events_dropped;
    for (const auto& [user, count] : older.unlisted) host.unlisted[user] += count;
  }
  host.communicators = joined_communicators(daemons);
  host.links = summed_links(daemons);
  host.ways = joined_ways(daemons);
  host.events = all_events(daemons);
  return host;
}

HostView remains_of(HostView ended) {
  ended.clients = 0;
  ended.memory_bytes = 0;
  ended.communicators.clear();
  ended.unlisted.clear();
  ended.ways.clear();
  ended.troubles.clear();
  return ended;
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
  cluster.events = all_events(hosts);
  for (SlowLink& each : find_slow_links(all_ways(hosts))) {
    cluster.findings.push_back({.kind = "slow link", .communicator = {}, .words = std::move(each.words)});
  }
  append(cluster.findings, find_wrong(cluster.communicators, unreachable));
  append(cluster.findings, all_troubles(hosts));
  cluster.hosts = std::move(hosts);
  cluster.unreachable = std::move(unreachable);
  return cluster;
}

}  // namespace banyan::service
