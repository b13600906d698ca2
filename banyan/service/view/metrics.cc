#include "banyan/service/view/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "banyan/service/view/findings.h"

namespace banyan::service {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// The families of a page, each with the name of the host.
class Page {
 public:
  explicit Page(const std::string& host) : host_(host) {}

  // Values of the family are added by add().
  Page& counter(const std::string& name, const std::string& help) { return begin(name, MetricType::Counter, help); }
  Page& gauge(const std::string& name, const std::string& help) { return begin(name, MetricType::Gauge, help); }
  Page& add(double value, const Labels& labels = {}) {
    MetricFamily& family = families_.back();
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"host", host_}};
    metric.label.insert(metric.label.end(), labels.begin(), labels.end());
    (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    return *this;
  }
  // Without families that have no values.
  std::string text() {
    std::erase_if(families_, [](const MetricFamily& family) { return family.metric.empty(); });
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, families_);
    return out.str();
  }

 private:
  Page& begin(const std::string& name, MetricType type, const std::string& help) {
    families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
    return *this;
  }

  const std::string host_;
  std::vector<MetricFamily> families_;
};

template <typename Count>
double number(Count count) {
  return static_cast<double>(count);
}

void add_daemon(Page& page, const HostView& view) {
  page.gauge("banyan_service_info", "The daemon; the value is 1.")
      .add(1, {{"version", view.version}, {"node", view.node}});
  page.gauge("banyan_service_up_seconds", "Time since the daemon began.").add(view.up_seconds);
  page.gauge("banyan_service_is_steward", "1 where this daemon shares out the links of all hosts.")
      .add(!view.steward.empty() && view.steward == view.name ? 1 : 0);
  page.gauge("banyan_service_is_draining", "1 where no communicators are opened any more.")
      .add(view.is_draining ? 1 : 0);
  page.gauge("banyan_service_rules_version", "Version of the rules in force.").add(number(view.rules_version));
  const bool are_refused = std::any_of(view.troubles.begin(), view.troubles.end(),
                                       [](const FindingView& each) { return each.kind == kRulesTrouble; });
  page.gauge("banyan_service_rules_refused", "1 where the file of rules was refused, and older ones are in force.")
      .add(are_refused ? 1 : 0);
  page.gauge("banyan_service_clients", "Processes that are attached.").add(number(view.clients));
  page.gauge("banyan_service_memory_bytes", "Memory of programs that the daemon has mapped.")
      .add(number(view.memory_bytes));
  if (view.most_descriptors > 0) {
    page.gauge("banyan_service_descriptors", "Open files and sockets of the daemon.").add(number(view.descriptors));
    page.gauge("banyan_service_most_descriptors", "Open files and sockets that the daemon may have.")
        .add(number(view.most_descriptors));
  }
  page.gauge("banyan_service_lost_hosts", "Hosts to whose daemons no call of this one comes through.")
      .add(view.lost_hosts);
  page.gauge("banyan_service_troubles", "Troubles of the daemon or of things that it needs, by kind; the value is 1.");
  for (const FindingView& each : view.troubles) page.add(1, {{"kind", each.kind}});
  page.counter("banyan_service_core_seconds_total", "Time that the daemon's working threads have run, all together.")
      .add(view.core_seconds);
  page.counter("banyan_refused_total", "Programs and calls that were refused, by reason.");
  for (const auto& [reason, count] : view.refused) page.add(number(count), {{"reason", reason}});
  page.counter("banyan_replans_total", "Wishes for new plans that were adopted.").add(number(view.replans));
  page.counter("banyan_events_dropped_total", "Events that the daemon keeps no more.").add(number(view.events_dropped));
}

void add_totals(Page& page, const MetricsMemory& memory) {
  const auto add_each = [&](auto member) {
    for (const auto& [name, totals] : memory.by_name()) {
      page.add(number(totals.*member), {{"tenant", name.first}, {"communicator", name.second}});
    }
  };
  page.counter("banyan_service_calls_total", "Calls of all ranks that are over, of each rank here.");
  add_each(&RankTotals::calls);
  page.counter("banyan_service_messages_total", "Sends and receives of ranks here that are over.");
  add_each(&RankTotals::messages);
  page.counter("banyan_service_payload_bytes_total", "Bytes of the larger buffer of each of these calls.");
  add_each(&RankTotals::payload_bytes);
  page.counter("banyan_service_sent_bytes_total", "Bytes that left ranks here, with headers.");
  for (const auto& [name, totals] : memory.by_name()) {
    const Labels labels = {{"tenant", name.first}, {"communicator", name.second}};
    const auto add = [&](const std::string& transport, uint64_t bytes) {
      Labels all = labels;
      all.push_back({"transport", transport});
      page.add(number(bytes), all);
    };
    add("tcp", totals.sent_tcp_bytes);
    add("shared_memory", totals.sent_shared_memory_bytes);
  }
  page.counter("banyan_service_reroutes_total", "Times that calls were begun again because a link was lost.");
  add_each(&RankTotals::reroutes);
  page.counter("banyan_tenant_core_seconds_total", "Time that the daemon has worked for the tenant.");
  for (const auto& [tenant, totals] : memory.by_tenant()) page.add(totals.core_seconds, {{"tenant", tenant}});
}

// What is open now, of those with the same labels: the sums, and the rank that waits longest.
struct Open {
  uint64_t communicators = 0, failed_ranks = 0;
  double stalled_seconds = 0, idle_seconds = 0;
};

void add_open(Page& page, const HostView& view, const MetricsMemory& memory) {
  std::map<MetricsMemory::Name, Open> all;
  std::map<std::string, double> weights;
  for (const CommunicatorView& communicator : view.communicators) {
    const MetricsMemory::Name& name = memory.label_of(communicator);
    Open& open = all[name];
    ++open.communicators;
    if (!communicator.is_direct) {
      double& weight = weights[name.first];
      weight = std::max(weight, communicator.weight);
    }
    for (const RankView& rank : communicator.ranks) {
      open.failed_ranks += rank.error.empty() ? 0 : 1;
      open.stalled_seconds = std::max(open.stalled_seconds, rank.stalled_seconds);
      open.idle_seconds = std::max(open.idle_seconds, rank.idle_seconds);
    }
  }
  const auto add_each = [&](auto member) {
    for (const auto& [name, open] : all) {
      page.add(number(open.*member), {{"tenant", name.first}, {"communicator", name.second}});
    }
  };
  page.gauge("banyan_service_communicators", "Communicators with ranks here.");
  add_each(&Open::communicators);
  page.gauge("banyan_service_failed_ranks", "Ranks here whose communicator an error has ended.");
  add_each(&Open::failed_ranks);
  page.gauge("banyan_rank_stalled_seconds", "The longest for which nothing of a call of a rank here has moved.");
  add_each(&Open::stalled_seconds);
  page.gauge("banyan_rank_idle_seconds", "The longest for which a rank here has had no call under way.");
  add_each(&Open::idle_seconds);
  page.gauge("banyan_tenant_weight", "The tenant's share of links is in proportion to it.");
  for (const auto& [tenant, weight] : weights) page.add(weight, {{"tenant", tenant}});
}

// The tenants are those that the daemon tells apart.
void add_links(Page& page, const HostView& view) {
  page.counter("banyan_link_bytes_total", "Payload that went over the link, of communicators whose rank 0 is here.");
  for (const LinkView& link : view.links) {
    for (const auto& [tenant, bytes] : link.bytes_by_tenant) {
      page.add(number(bytes), {{"link", link.name}, {"tenant", tenant}});
    }
  }
  page.gauge("banyan_link_capacity_bytes_per_second", "Payload that the link carries at most.");
  for (const LinkView& link : view.links) page.add(link.capacity, {{"link", link.name}});
}

}  // namespace

std::string metrics_of(const HostView& view, MetricsMemory& memory) {
  memory.note(view);
  Page page(view.name);
  add_daemon(page, view);
  add_totals(page, memory);
  add_open(page, view, memory);
  add_links(page, view);
  return page.text();
}

}  // namespace banyan::service
