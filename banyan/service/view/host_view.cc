#include "banyan/service/view/host_view.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "banyan/base/text.h"
#include "banyan/service/view/findings.h"
#include "banyan/service/view/slow_links.h"
#include "banyan/service/view/view_fields.h"

namespace banyan::service {
namespace {

void put_in_order(CommunicatorView& communicator) {
  std::sort(communicator.hosts.begin(), communicator.hosts.end());
  communicator.hosts.erase(std::unique(communicator.hosts.begin(), communicator.hosts.end()), communicator.hosts.end());
  std::stable_sort(communicator.ranks.begin(), communicator.ranks.end(),
                   [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
}

// Times of pressure are those of the daemon that was pressed for longer.
void join(WayView& joined, WayView&& other) {
  if (other.pressed_seconds > joined.pressed_seconds) {
    joined.pressed_seconds = other.pressed_seconds;
    joined.delayed_seconds = other.delayed_seconds;
    joined.round_trip_seconds = other.round_trip_seconds;
  }
  join<WayView>(joined, std::move(other));
}

// Takes the rows of all hosts, and joins those of one key. In the order in which the keys came first.
template <typename View, typename KeyOf>
std::vector<View> joined_rows(std::vector<HostView>& hosts, std::vector<View> HostView::*rows, KeyOf key_of) {
  std::vector<View> all;
  std::map<decltype(key_of(View())), size_t> places;
  for (HostView& host : hosts) {
    for (View& each : host.*rows) {
      const auto [known, is_new] = places.emplace(key_of(each), all.size());
      if (is_new) {
        all.push_back(std::move(each));
      } else {
        join(all[known->second], std::move(each));
      }
    }
    (host.*rows).clear();
  }
  return all;
}

std::vector<CommunicatorView> joined_communicators(std::vector<HostView>& hosts) {
  std::vector<CommunicatorView> all =
      joined_rows(hosts, &HostView::communicators, [](const CommunicatorView& each) { return each.id; });
  for (CommunicatorView& each : all) put_in_order(each);
  std::sort(all.begin(), all.end(), [](const CommunicatorView& a, const CommunicatorView& b) {
    return std::tie(a.tenant, a.name, a.id) < std::tie(b.tenant, b.name, b.id);
  });
  return all;
}

std::vector<LinkView> joined_links(std::vector<HostView>& hosts) {
  std::vector<LinkView> all = joined_rows(hosts, &HostView::links, [](const LinkView& each) { return each.name; });
  std::sort(all.begin(), all.end(), [](const LinkView& a, const LinkView& b) { return a.name < b.name; });
  return all;
}

std::vector<WayView> joined_ways(std::vector<HostView>& daemons) {
  return joined_rows(daemons, &HostView::ways,
                     [](const WayView& each) { return std::tuple(each.from, each.to, each.links); });
}

template <typename View>
std::vector<View> all_rows(std::vector<HostView>& hosts, std::vector<View> HostView::*rows) {
  std::vector<View> all;
  for (HostView& host : hosts) append(all, std::move(host.*rows));
  return all;
}

std::vector<EventView> all_events(std::vector<HostView>& hosts) {
  std::vector<EventView> all = all_rows(hosts, &HostView::events);
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

}  // namespace

double WayView::bytes() const {
  double sum = 0;
  for (const auto& [tenant, bytes] : bytes_by_tenant) sum += static_cast<double>(bytes);
  return sum;
}

HostView as_one_host(std::vector<HostView> daemons) {
  HostView host = daemons.front();
  host.communicators = joined_communicators(daemons);
  host.links = joined_links(daemons);
  host.ways = joined_ways(daemons);
  host.events = all_events(daemons);
  for (size_t i = 1; i < daemons.size(); ++i) join(host, std::move(daemons[i]));
  return host;
}

HostView remains_of(HostView ended) {
  each_field<HostView>([&](const auto& field) {
    if (field.traits.ends_with_daemon) ended.*field.member = {};
  });
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
  cluster.links = joined_links(hosts);
  cluster.events = all_events(hosts);
  for (SlowLink& each : find_slow_links(all_rows(hosts, &HostView::ways))) {
    cluster.findings.push_back({.kind = "slow link", .communicator = {}, .words = std::move(each.words)});
  }
  append(cluster.findings, find_wrong(cluster.communicators, unreachable));
  append(cluster.findings, all_troubles(hosts));
  cluster.hosts = std::move(hosts);
  cluster.unreachable = std::move(unreachable);
  return cluster;
}

}  // namespace banyan::service
