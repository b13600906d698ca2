// Views with all fields filled in from a seed. Tests only.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

class RandomViews {
 public:
  explicit RandomViews(uint32_t seed) : random_(seed) {}

  HostView host() {
    HostView view{.at = number(), .host = text(), .name = text(), .node = text(), .version = text()};
    view.up_seconds = number();
    view.steward = text();
    view.is_draining = below(2) == 0;
    for (size_t i = below(3); i > 0; --i) view.obeys.push_back(text());
    view.rules_version = random_();
    view.clients = small();
    view.memory_bytes = random_();
    view.core_seconds = number();
    for (size_t i = below(3); i > 0; --i) view.refused[text()] = random_();
    view.replans = random_();
    view.events_dropped = random_();
    for (size_t i = below(3); i > 0; --i) view.communicators.push_back(communicator());
    for (size_t i = below(3); i > 0; --i) view.links.push_back(link());
    for (size_t i = below(3); i > 0; --i) view.ways.push_back(way());
    for (size_t i = below(3); i > 0; --i) view.events.push_back(event());
    view.descriptors = random_();
    view.most_descriptors = random_();
    for (size_t i = below(3); i > 0; --i) view.troubles.push_back(finding());
    view.lost_hosts = small();
    for (size_t i = below(3); i > 0; --i) view.unlisted[text()] = random_();
    return view;
  }

  ClusterView cluster() {
    ClusterView view{.at = number()};
    for (size_t i = below(3); i > 0; --i) view.hosts.push_back(host());
    for (size_t i = below(3); i > 0; --i) view.unreachable.push_back({.host = text(), .why = text()});
    for (size_t i = below(3); i > 0; --i) view.communicators.push_back(communicator());
    for (size_t i = below(3); i > 0; --i) view.links.push_back(link());
    for (size_t i = below(3); i > 0; --i) view.events.push_back(event());
    for (size_t i = below(3); i > 0; --i) {
      view.findings.push_back({.kind = text(), .communicator = text(), .words = text()});
    }
    return view;
  }

  size_t below(size_t end) { return random_() % end; }

 private:
  WayView way() {
    WayView view{.from = text(), .to = text()};
    for (size_t i = below(3); i > 0; --i) view.links.push_back({.name = text(), .capacity = number()});
    view.is_whole = below(2) == 0;
    view.seconds = number();
    view.busy_seconds = number();
    view.pressed_seconds = number();
    view.delayed_seconds = number();
    view.round_trip_seconds = number();
    view.wake_seconds = number();
    for (size_t i = below(3); i > 0; --i) view.bytes_by_tenant[text()] = random_();
    if (below(2) == 0) view.allowed = random_();
    return view;
  }

  RankView rank() {
    RankView view{.rank = small(), .host = text(), .process = small(), .user = small(), .program = text()};
    view.calls_begun = random_();
    view.calls_over = random_();
    view.messages_over = random_();
    view.payload_bytes = random_();
    view.sent_tcp_bytes = random_();
    view.sent_shared_memory_bytes = random_();
    view.call = text();
    view.call_seconds = number();
    view.stalled_seconds = number();
    view.idle_seconds = number();
    view.idle_total_seconds = number();
    if (below(2) == 0) view.waiting_for = small();
    view.core_seconds = number();
    view.generation = small();
    view.reroutes = small();
    view.error = text();
    return view;
  }

  CommunicatorView communicator() {
    CommunicatorView view{.id = text(), .name = text(), .tenant = text(), .size = small()};
    for (size_t i = below(3); i > 0; --i) view.hosts.push_back(text());
    view.is_direct = below(2) == 0;
    view.rule = text();
    view.sharer = text();
    view.weight = number();
    view.share_class = static_cast<ShareClass>(below(3));
    if (below(2) == 0) view.cap = random_();
    if (below(2) == 0) view.rate = random_();
    view.progress = number();
    for (size_t i = below(3); i > 0; --i) view.ranks.push_back(rank());
    return view;
  }

  LinkView link() {
    LinkView view{.name = text(), .capacity = number()};
    for (size_t i = below(3); i > 0; --i) view.bytes_by_tenant[text()] = random_();
    return view;
  }

  FindingView finding() { return {.kind = text(), .communicator = text(), .words = text()}; }

  EventView event() { return {.at = number(), .host = text(), .words = text()}; }

  uint32_t small() { return static_cast<uint32_t>(random_()); }
  double number() {
    const double part = std::uniform_real_distribution<double>()(random_);
    return below(4) == 0 ? 0 : std::ldexp(part, static_cast<int>(below(80)) - 40);
  }
  std::string text() {
    static const std::vector<std::string> kParts = {"a",    "0",        "\"", "\\", "\n",
                                                    "\x01", "\xc3\xa4", "->", "{",  std::string(1, '\0')};
    std::string text;
    for (size_t i = below(6); i > 0; --i) text += kParts[below(kParts.size())];
    return text;
  }

  std::mt19937_64 random_;
};

}  // namespace banyan::service
