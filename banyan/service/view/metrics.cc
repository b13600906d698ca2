#include "banyan/service/view/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "banyan/service/view/findings.h"
#include "banyan/service/view/view_fields.h"

namespace banyan::service {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Communicators that are open now and have the same labels: the sums, and the rank that waits longest.
struct Open {
  uint64_t communicators = 0, failed_ranks = 0;
  double stalled_seconds = 0, idle_seconds = 0;
};

// Values are made from this.
struct Source {
  const HostView& view;
  const MetricsMemory& memory;
  std::map<MetricsMemory::Name, Open> open;
  std::map<std::string, double> weights;  // by tenant
};

Source source_of(const HostView& view, const MetricsMemory& memory) {
  Source source{.view = view, .memory = memory, .open = {}, .weights = {}};
  for (const CommunicatorView& communicator : view.communicators) {
    const MetricsMemory::Name& name = memory.label_of(communicator);
    Open& open = source.open[name];
    ++open.communicators;
    if (!communicator.is_direct) keep_larger(source.weights[name.first], double{communicator.weight});
    for (const RankView& rank : communicator.ranks) {
      open.failed_ranks += rank.error.empty() ? 0 : 1;
      keep_larger(open.stalled_seconds, double{rank.stalled_seconds});
      keep_larger(open.idle_seconds, double{rank.idle_seconds});
    }
  }
  return source;
}

template <typename Number>
void add_value(MetricFamily& family, Number value, const Labels& labels = {}) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = labels;
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = static_cast<double>(value);
}

Labels labels_of(const MetricsMemory::Name& name) { return {{"tenant", name.first}, {"communicator", name.second}}; }

template <auto kMember>
void of_daemon(MetricFamily& family, const Source& source) {
  add_value(family, source.view.*kMember);
}
// 0: not known.
template <auto kMember>
void of_daemon_if_known(MetricFamily& family, const Source& source) {
  if (source.view.*kMember > 0) add_value(family, source.view.*kMember);
}
template <auto kMember>
void of_ranks(MetricFamily& family, const Source& source) {
  for (const auto& [name, sums] : source.memory.by_name()) add_value(family, sums.*kMember, labels_of(name));
}
template <auto kMember>
void of_open(MetricFamily& family, const Source& source) {
  for (const auto& [name, open] : source.open) add_value(family, open.*kMember, labels_of(name));
}

void info(MetricFamily& family, const Source& source) {
  add_value(family, 1, {{"version", source.view.version}, {"node", source.view.node}});
}
void is_steward(MetricFamily& family, const Source& source) {
  add_value(family, !source.view.steward.empty() && source.view.steward == source.view.name);
}
void rules_refused(MetricFamily& family, const Source& source) {
  const std::vector<FindingView>& troubles = source.view.troubles;
  add_value(family, std::any_of(troubles.begin(), troubles.end(),
                                [](const FindingView& each) { return each.kind == kRulesTrouble; }));
}
void troubles(MetricFamily& family, const Source& source) {
  for (const FindingView& each : source.view.troubles) add_value(family, 1, {{"kind", each.kind}});
}
void refused(MetricFamily& family, const Source& source) {
  for (const auto& [reason, count] : source.view.refused) add_value(family, count, {{"reason", reason}});
}
void sent_bytes(MetricFamily& family, const Source& source) {
  for (const auto& [name, sums] : source.memory.by_name()) {
    Labels labels = labels_of(name);
    labels.push_back({"transport", "tcp"});
    add_value(family, sums.sent_tcp_bytes, labels);
    labels.back().value = "shared_memory";
    add_value(family, sums.sent_shared_memory_bytes, labels);
  }
}
void core_seconds_of_tenants(MetricFamily& family, const Source& source) {
  for (const auto& [tenant, sums] : source.memory.by_tenant())
    add_value(family, sums.core_seconds, {{"tenant", tenant}});
}
void weights(MetricFamily& family, const Source& source) {
  for (const auto& [tenant, weight] : source.weights) add_value(family, weight, {{"tenant", tenant}});
}
// The tenants are those that the daemon tells apart.
void link_bytes(MetricFamily& family, const Source& source) {
  for (const LinkView& link : source.view.links) {
    for (const auto& [tenant, bytes] : link.bytes_by_tenant) {
      add_value(family, bytes, {{"link", link.name}, {"tenant", tenant}});
    }
  }
}
void link_capacities(MetricFamily& family, const Source& source) {
  for (const LinkView& link : source.view.links) add_value(family, link.capacity, {{"link", link.name}});
}

// A name that ends with "_total" is that of a counter; others are of gauges.
struct Family {
  std::string_view name, help;
  void (*add)(MetricFamily&, const Source&);
};

constexpr Family kFamilies[] = {
    {"banyan_service_info", "The daemon; the value is 1.", info},
    {"banyan_service_up_seconds", "Time since the daemon began.", of_daemon<&HostView::up_seconds>},
    {"banyan_service_is_steward", "1 where this daemon shares out the links of all hosts.", is_steward},
    {"banyan_service_is_draining", "1 where no communicators are opened any more.", of_daemon<&HostView::is_draining>},
    {"banyan_service_rules_version", "Version of the rules in force.", of_daemon<&HostView::rules_version>},
    {"banyan_service_rules_refused", "1 where the file of rules was refused, and older ones are in force.",
     rules_refused},
    {"banyan_service_clients", "Processes that are attached.", of_daemon<&HostView::clients>},
    {"banyan_service_memory_bytes", "Memory of programs that the daemon has mapped.",
     of_daemon<&HostView::memory_bytes>},
    {"banyan_service_descriptors", "Open files and sockets of the daemon.", of_daemon_if_known<&HostView::descriptors>},
    {"banyan_service_most_descriptors", "Open files and sockets that the daemon may have.",
     of_daemon_if_known<&HostView::most_descriptors>},
    {"banyan_service_lost_hosts", "Hosts to whose daemons no call of this one comes through.",
     of_daemon<&HostView::lost_hosts>},
    {"banyan_service_troubles", "Troubles of the daemon or of things that it needs, by kind; the value is 1.",
     troubles},
    {"banyan_service_core_seconds_total", "Time that the daemon's working threads have run, all together.",
     of_daemon<&HostView::core_seconds>},
    {"banyan_refused_total", "Programs and calls that were refused, by reason.", refused},
    {"banyan_replans_total", "Wishes for new plans that were adopted.", of_daemon<&HostView::replans>},
    {"banyan_events_dropped_total", "Events that the daemon keeps no more.", of_daemon<&HostView::events_dropped>},
    {"banyan_service_calls_total", "Calls of all ranks that are over, of each rank here.",
     of_ranks<&RankView::calls_over>},
    {"banyan_service_messages_total", "Sends and receives of ranks here that are over.",
     of_ranks<&RankView::messages_over>},
    {"banyan_service_payload_bytes_total", "Bytes of the larger buffer of each of these calls.",
     of_ranks<&RankView::payload_bytes>},
    {"banyan_service_sent_bytes_total", "Bytes that left ranks here, with headers.", sent_bytes},
    {"banyan_service_reroutes_total", "Times that calls were begun again because a link was lost.",
     of_ranks<&RankView::reroutes>},
    {"banyan_tenant_core_seconds_total", "Time that the daemon has worked for the tenant.", core_seconds_of_tenants},
    {"banyan_service_communicators", "Communicators with ranks here.", of_open<&Open::communicators>},
    {"banyan_service_failed_ranks", "Ranks here whose communicator an error has ended.", of_open<&Open::failed_ranks>},
    {"banyan_rank_stalled_seconds", "The longest for which nothing of a call of a rank here has moved.",
     of_open<&Open::stalled_seconds>},
    {"banyan_rank_idle_seconds", "The longest for which a rank here has had no call under way.",
     of_open<&Open::idle_seconds>},
    {"banyan_tenant_weight", "The tenant's share of links is in proportion to it.", weights},
    {"banyan_link_bytes_total", "Payload that went over the link, of communicators whose rank 0 is here.", link_bytes},
    {"banyan_link_capacity_bytes_per_second", "Payload that the link carries at most.", link_capacities},
};

}  // namespace

// Families that have no values are left out.
std::string metrics_of(const HostView& view, MetricsMemory& memory) {
  memory.record(view);
  const Source source = source_of(view, memory);
  std::vector<MetricFamily> families;
  for (const Family& each : kFamilies) {
    const MetricType type = each.name.ends_with("_total") ? MetricType::Counter : MetricType::Gauge;
    MetricFamily family{.name = std::string(each.name), .help = std::string(each.help), .type = type, .metric = {}};
    each.add(family, source);
    for (ClientMetric& metric : family.metric) metric.label.insert(metric.label.begin(), {"host", view.name});
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

}  // namespace banyan::service
