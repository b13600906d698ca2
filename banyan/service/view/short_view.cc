#include "banyan/service/view/short_view.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/base/text.h"
#include "banyan/service/share/tenant_label.h"
#include "banyan/service/view/view_json.h"

namespace banyan::service {
namespace {

size_t bytes_of(const std::map<std::string, uint64_t>& counts) {
  constexpr size_t kCount = 24;
  size_t bytes = 0;
  for (const auto& [name, count] : counts) bytes += most_json_bytes(name) + kCount;
  return bytes;
}

size_t bytes_of(const CommunicatorView& view) {
  size_t bytes = most_json_bytes(view);
  for (const RankView& rank : view.ranks) bytes += most_json_bytes(rank);
  return bytes;
}

size_t bytes_of_tenants(const HostView& view) {
  size_t bytes = 0;
  for (const LinkView& link : view.links) bytes += bytes_of(link.bytes_by_tenant);
  for (const WayView& way : view.ways) bytes += bytes_of(way.bytes_by_tenant);
  return bytes;
}

void sum_up(std::map<std::string, uint64_t>& by_tenant) {
  if (by_tenant.empty()) return;
  const uint64_t sum = std::accumulate(by_tenant.begin(), by_tenant.end(), uint64_t{0},
                                       [](uint64_t before, const auto& each) { return before + each.second; });
  by_tenant = {{kOthers, sum}};
}

// Places of communicators in the order in which they get room.
std::vector<size_t> in_turn(const std::vector<CommunicatorView>& communicators, const std::vector<size_t>& bytes) {
  std::map<uint32_t, size_t> seen;  // by user
  std::vector<size_t> turns, places(communicators.size());
  for (const CommunicatorView& each : communicators) {
    turns.push_back(seen[each.ranks.empty() ? 0 : each.ranks[0].user]++);
  }
  std::iota(places.begin(), places.end(), size_t{0});
  std::sort(places.begin(), places.end(),
            [&](size_t a, size_t b) { return std::tie(turns[a], bytes[a], a) < std::tie(turns[b], bytes[b], b); });
  return places;
}

}  // namespace

HostView short_view(HostView view, size_t most) {
  if (bytes_of_tenants(view) > most / 2) {
    for (LinkView& link : view.links) sum_up(link.bytes_by_tenant);
    for (WayView& way : view.ways) sum_up(way.bytes_by_tenant);
  }
  std::vector<size_t> bytes;
  for (const CommunicatorView& each : view.communicators) bytes.push_back(bytes_of(each));
  size_t room = most - std::min(most, bytes_of_tenants(view)), communicators = 0, ranks = 0;
  std::vector<bool> is_kept(bytes.size());
  for (const size_t place : in_turn(view.communicators, bytes)) {
    is_kept[place] = bytes[place] <= room;
    if (is_kept[place]) {
      room -= bytes[place];
    } else {
      ++communicators;
      ranks += view.communicators[place].ranks.size();
    }
  }
  if (communicators == 0) return view;
  std::vector<CommunicatorView> kept;
  for (size_t place = 0; place < bytes.size(); ++place) {
    if (is_kept[place]) kept.push_back(std::move(view.communicators[place]));
  }
  view.communicators = std::move(kept);
  view.troubles.push_back({.kind = kLeftOutTrouble,
                           .communicator = "",
                           .words = "host " + view.name + " has " + plural(communicators, "communicator") +
                                    " more, with " + plural(ranks, "rank") +
                                    " there, than it tells other hosts: its view would be too long; ask it itself"});
  return view;
}

}  // namespace banyan::service
