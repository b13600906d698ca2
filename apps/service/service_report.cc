#include "apps/service/service_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/base/utf8.h"
#include "banyan/base/words.h"

namespace banyan::app {
namespace {

using service::ClusterView;
using service::CommunicatorView;
using service::HostView;
using service::RankView;

constexpr size_t kMostRows = 40;  // of communicators and links; --json has them all

std::string duration(double seconds) {
  constexpr double kMost = 1e9;  // some 30 years
  return format_duration(std::llround(std::min(seconds, kMost) * 1e9));
}

// "15.7 MB/s": three digits, whatever the unit is. As the dashboard says it (service/page/src/format.ts).
std::string rate_text(double bytes_per_second) {
  constexpr std::array<const char*, 6> kUnits = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
  size_t unit = 0;
  while (bytes_per_second >= 999.5 && unit + 1 < kUnits.size()) {
    bytes_per_second /= 1000;
    ++unit;
  }
  const int digits = bytes_per_second >= 99.95 || unit == 0 ? 0 : bytes_per_second < 9.995 ? 2 : 1;
  return format_decimals(bytes_per_second, digits) + " " + kUnits[unit];
}

// Whole units, where bytes matter to nobody.
std::string size(uint64_t bytes) { return Bytes(bytes).to_string(); }

std::string number(double value) {
  return value == std::floor(value) ? format_decimals(value, 0) : format_decimals(value, value < 10 ? 1 : 0);
}

std::string share_of(const CommunicatorView& communicator) {
  if (communicator.is_direct) return "-";
  std::string words = number(communicator.weight);
  if (communicator.share_class != service::ShareClass::normal) {
    words += " " + std::string(to_string(communicator.share_class));
  }
  return words;
}

std::string limit_of(const CommunicatorView& communicator) {
  if (communicator.is_direct) return "on one host";
  if (communicator.rate) return rate_text(static_cast<double>(*communicator.rate));
  return communicator.cap ? rate_text(static_cast<double>(*communicator.cap)) : "-";
}

std::string state_of(const HostView& host, const ClusterView& view) {
  std::string words;
  const auto add = [&](const std::string& more) { words += (words.empty() ? "" : ", ") + more; };
  const auto is_led = [&](const HostView& each) { return each.steward == host.name; };
  if (std::any_of(view.hosts.begin(), view.hosts.end(), is_led)) add("shares out links");
  if (host.is_draining) add("draining");
  std::string obeyed;
  for (const std::string& each : host.obeys) obeyed += (obeyed.empty() ? "obeys " : " and ") + harmless(each);
  if (!obeyed.empty()) add(obeyed);
  uint64_t refused = 0;
  for (const auto& [reason, count] : host.refused) refused += count;
  if (refused > 0) add(with_thousands(refused) + " refused");
  return words;
}

// "13 of 1,024".
std::string descriptors_of(const HostView& host) {
  if (host.most_descriptors == 0) return "-";
  return with_thousands(host.descriptors) + " of " + with_thousands(host.most_descriptors);
}

std::string and_more(size_t all, size_t shown, const char* noun) {
  return all <= shown ? "" : "and " + plural(all - shown, noun) + " more (see --json)\n";
}

std::string newcomers_text(const Terminal& terminal, const ServiceRates& rates) {
  std::string names;
  for (const std::string& each : rates.newcomers) names += (names.empty() ? "" : ", ") + harmless(each);
  if (names.empty()) return "";
  return labelled(terminal, "note", names + " answered only the second time: links may seem fuller than they are");
}

}  // namespace

bool is_well(const ClusterView& view) { return view.findings.empty() && view.unreachable.empty(); }

std::string doing_of(const CommunicatorView& communicator) {
  const RankView* longest = nullptr;
  double idle = -1;
  for (const RankView& each : communicator.ranks) {
    if (!each.error.empty()) return "has ended: " + harmless(each.error);
    if (!each.call.empty() && (longest == nullptr || each.call_seconds > longest->call_seconds)) longest = &each;
    if (each.call.empty() && (idle < 0 || each.idle_seconds < idle)) idle = each.idle_seconds;
  }
  if (longest != nullptr) {
    return "in " + harmless(longest->call) +
           (communicator.is_direct ? " for " + duration(longest->call_seconds)
                                   : ", " + rough_percent(communicator.progress));
  }
  return idle < 0 ? "" : "no call for " + duration(idle);
}

Table hosts_table(const ClusterView& view) {
  Table table({"host", "node", "version", "up", "programs", "memory", "descriptors", "rules", ""});
  for (const HostView& each : view.hosts) {
    table.add({harmless(each.name), each.node.empty() ? "-" : harmless(each.node), harmless(each.version),
               duration(each.up_seconds), with_thousands(each.clients), size(each.memory_bytes), descriptors_of(each),
               std::to_string(each.rules_version), state_of(each, view)});
  }
  return table;
}

Table tenants_table(const ServiceRates& rates) {
  Table table({"tenant", "weight", "class", "communicators", "ranks", "calls/s", "payload", "sent by ranks", "share",
               "by weight", "idle"});
  for (const ServiceRates::Tenant& each : rates.tenants) {
    const bool has_sent = each.sent_per_second > 0;
    const bool has_weight = each.weight > 0;
    table.add({harmless(each.name), has_weight ? number(each.weight) : "-",
               has_weight ? std::string(to_string(each.share_class)) : "-", with_thousands(each.communicators),
               with_thousands(each.ranks), number(each.calls_per_second), rate_text(each.payload_per_second),
               rate_text(each.sent_per_second), has_sent ? format_percent(each.share) : "-",
               has_sent ? format_percent(each.due) : "-", has_weight ? rough_percent(each.idle) : "-"});
  }
  return table;
}

Table communicators_table(const ClusterView& view, const ServiceRates* rates, size_t most) {
  Table table({"communicator", "id", "tenant", "ranks", "hosts", rates == nullptr ? "calls" : "calls/s", "weight",
               "limit on a link", "doing"});
  for (size_t i = 0; i < std::min(most, view.communicators.size()); ++i) {
    const CommunicatorView& each = view.communicators[i];
    uint64_t calls = 0;
    for (const RankView& rank : each.ranks) calls = std::max(calls, rank.calls_over);
    std::string called = with_thousands(calls);
    if (rates != nullptr) {
      const auto known = rates->communicators.find(each.id);
      called = known == rates->communicators.end() ? "-" : number(known->second.calls_per_second);
    }
    table.add({harmless(each.name), harmless(each.id), harmless(each.tenant), with_thousands(each.size),
               with_thousands(each.hosts.size()), called, share_of(each), limit_of(each), doing_of(each)});
  }
  return table;
}

Table links_table(const ServiceRates& rates, size_t most) {
  constexpr size_t kMostTenants = 4;
  Table table({"link", "full", "carries", "of", "by tenant"});
  for (size_t i = 0; i < std::min(most, rates.links.size()); ++i) {
    const ServiceRates::Link& link = rates.links[i];
    std::string tenants;
    for (size_t j = 0; j < std::min(kMostTenants, link.by_tenant.size()); ++j) {
      const auto& [name, rate] = link.by_tenant[j];
      tenants += (j == 0 ? "" : ", ") + harmless(name) + " " + rough_percent(rate / link.per_second);
    }
    if (link.by_tenant.size() > kMostTenants) {
      tenants += " and " + plural(link.by_tenant.size() - kMostTenants, "tenant") + " more";
    }
    table.add({harmless(link.name), rough_percent(link.full()), rate_text(link.per_second), rate_text(link.capacity),
               tenants});
  }
  return table;
}

std::string status_text(const Terminal& terminal, const ClusterView& view) {
  std::string text;
  if (is_well(view)) {
    text = terminal.styled(Terminal::Style::good, "healthy") +
           "    all hosts answer, no rank is late, and no call stands still\n";
  }
  for (const service::FindingView& each : view.findings) {
    const std::string label = each.kind == "unreachable host" ? "unreachable" : harmless(each.kind);
    text += labelled(terminal, label, harmless(each.words));
  }
  text += "\n" + hosts_table(view).format(terminal);
  if (view.communicators.empty()) return text + "\nno communicator is open\n";
  return text + "\n" + communicators_table(view, nullptr, kMostRows).format(terminal) +
         and_more(view.communicators.size(), kMostRows, "communicator");
}

std::string tenants_text(const Terminal& terminal, const ServiceRates& rates) {
  if (rates.tenants.empty()) return "no communicator is open\n";
  return tenants_table(rates).format(terminal);
}

std::string links_text(const Terminal& terminal, const ServiceRates& rates) {
  if (rates.links.empty()) return "no link has carried anything that is over\n";
  return links_table(rates, kMostRows).format(terminal) + and_more(rates.links.size(), kMostRows, "link") +
         newcomers_text(terminal, rates);
}

std::string hints_text(const Terminal& terminal, const Json& hints) {
  const auto hosts = hints.at("hosts").get<std::vector<std::string>>();
  if (hosts.empty()) return "no communicator of this user is open on this host\n";
  const auto listed = [&](const Json& names) {
    constexpr size_t kMostHosts = 4;
    if (names.size() > 1 && names.size() == hosts.size()) return std::string("all");
    std::string text;
    for (size_t i = 0; i < std::min(kMostHosts, names.size()); ++i) {
      text += (i == 0 ? "" : ", ") + harmless(names[i].get<std::string>());
    }
    return text + (names.size() > kMostHosts ? " and " + std::to_string(names.size() - kMostHosts) + " more" : "");
  };
  const auto rate = [](const Json& value) { return value.is_null() ? std::string("?") : rate_text(value); };
  Table table({"link", "free", "of", "own", "others", "between hosts"});
  for (const Json& link : hints.at("links")) {
    const Json& cotenants = link.at("cotenants");
    table.add({harmless(link.at("name").get<std::string>()), rate(link.at("free")), rate(link.at("capacity")),
               rate(link.at("own")), cotenants.is_null() ? "?" : std::to_string(cotenants.get<uint64_t>()),
               listed(link.at("from")) + " -> " + listed(link.at("to"))});
  }
  return table.format(terminal);
}

Json tenants_json(const ServiceRates& rates) {
  Json tenants = Json::array();
  for (const ServiceRates::Tenant& each : rates.tenants) {
    tenants.push_back({{"tenant", each.name},
                       {"sharer", each.sharer},
                       {"weight", each.weight},
                       {"class", to_string(each.share_class)},
                       {"communicators", each.communicators},
                       {"ranks", each.ranks},
                       {"calls_per_second", each.calls_per_second},
                       {"payload_bytes_per_second", each.payload_per_second},
                       {"sent_bytes_per_second", each.sent_per_second},
                       {"share", each.share},
                       {"idle", each.idle},
                       {"share_by_weight", each.due}});
  }
  return {{"seconds", rates.seconds}, {"tenants", std::move(tenants)}};
}

Json links_json(const ServiceRates& rates) {
  Json links = Json::array();
  for (const ServiceRates::Link& each : rates.links) {
    Json tenants = Json::object();
    for (const auto& [name, rate] : each.by_tenant) tenants[name] = rate;
    links.push_back({{"link", each.name},
                     {"capacity_bytes_per_second", each.capacity},
                     {"bytes_per_second", each.per_second},
                     {"full", each.full()},
                     {"bytes_per_second_by_tenant", std::move(tenants)}});
  }
  return {{"seconds", rates.seconds}, {"links", std::move(links)}, {"newcomers", rates.newcomers}};
}

}  // namespace banyan::app
