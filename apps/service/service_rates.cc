#include "apps/service/service_rates.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace banyan::app {
namespace {

using service::ClusterView;
using service::CommunicatorView;
using service::LinkView;
using service::RankView;

struct Growth {
  uint64_t calls = 0, payload = 0, sent = 0;
  double idle = 0;  // seconds
};

uint64_t grown(uint64_t before, uint64_t after) { return after > before ? after - before : 0; }

class Comparison {
 public:
  Comparison(const ClusterView& first, const ClusterView& second) : second_(second) {
    for (const service::HostView& each : first.hosts) hosts_.insert(each.name);
    for (const CommunicatorView& each : first.communicators) {
      for (const RankView& rank : each.ranks) ranks_[{each.id, rank.rank}] = &rank;
    }
    for (const LinkView& each : first.links) links_[each.name] = &each;
    rates_.seconds = std::max(0.0, second.at - first.at);
    per_second_ = rates_.seconds > 0 ? 1 / rates_.seconds : 0;
  }

  ServiceRates rates() {
    for (const service::HostView& each : second_.hosts) {
      if (!hosts_.contains(each.name)) rates_.newcomers.push_back(each.name);
    }
    std::map<std::string, ServiceRates::Tenant> tenants;
    for (const CommunicatorView& each : second_.communicators) add(each, tenants[each.tenant]);
    for (auto& [name, tenant] : tenants) {
      tenant.idle = rank_seconds_[name] > 0 ? std::min(1.0, tenant.idle / rank_seconds_[name]) : 0;
      rates_.tenants.push_back(std::move(tenant));
    }
    share_out();
    for (const LinkView& each : second_.links) add(each);
    std::stable_sort(rates_.links.begin(), rates_.links.end(),
                     [](const ServiceRates::Link& a, const ServiceRates::Link& b) { return a.full() > b.full(); });
    return std::move(rates_);
  }

 private:
  Growth growth(const CommunicatorView& communicator, const RankView& now) const {
    const auto known = ranks_.find({communicator.id, now.rank});
    static const RankView kNone;
    if (known == ranks_.end() && !hosts_.contains(now.host)) return {};
    const RankView& before = known == ranks_.end() ? kNone : *known->second;
    return {.calls = grown(before.calls_over, now.calls_over) + grown(before.messages_over, now.messages_over),
            .payload = grown(before.payload_bytes, now.payload_bytes),
            .sent = grown(before.sent_tcp_bytes, now.sent_tcp_bytes),
            .idle = std::max(0.0, now.idle_total_seconds - before.idle_total_seconds)};
  }

  // The calls of a communicator are those of the rank that has ended most.
  void add(const CommunicatorView& communicator, ServiceRates::Tenant& tenant) {
    Growth all;
    for (const RankView& each : communicator.ranks) {
      const Growth more = growth(communicator, each);
      all.calls = std::max(all.calls, more.calls);
      all.payload += more.payload;
      all.sent += more.sent;
      all.idle += more.idle;
    }
    const ServiceRates::Communicator rates{.calls_per_second = static_cast<double>(all.calls) * per_second_,
                                           .sent_per_second = static_cast<double>(all.sent) * per_second_};
    rates_.communicators[communicator.id] = rates;
    tenant.name = communicator.tenant;
    ++tenant.communicators;
    if (!communicator.is_direct) {
      add_terms(communicator, tenant);
      rank_seconds_[tenant.name] += static_cast<double>(communicator.ranks.size()) * rates_.seconds;
      tenant.idle += all.idle;  // of that
    }
    tenant.ranks += communicator.ranks.size();
    tenant.calls_per_second += rates.calls_per_second;
    tenant.payload_per_second += static_cast<double>(all.payload) * per_second_;
    tenant.sent_per_second += rates.sent_per_second;
  }

  static void add_terms(const CommunicatorView& communicator, ServiceRates::Tenant& tenant) {
    const bool is_first = tenant.weight == 0;
    tenant.sharer = communicator.sharer;
    tenant.weight = std::max(tenant.weight, communicator.weight);
    tenant.share_class = is_first ? communicator.share_class
                                  : std::min(tenant.share_class, communicator.share_class);  // the highest is the first
  }

  void share_out() {
    struct Sharer {
      double weight = 0, tenants = 0;  // of those that have sent anything
    };
    std::map<std::string_view, Sharer> sharers;
    double sent = 0;
    for (const ServiceRates::Tenant& each : rates_.tenants) {
      if (!(each.sent_per_second > 0)) continue;
      sent += each.sent_per_second;
      Sharer& sharer = sharers[each.sharer];
      sharer.weight = std::max(sharer.weight, each.weight);
      ++sharer.tenants;
    }
    double weight = 0;
    for (const auto& [name, sharer] : sharers) weight += sharer.weight;
    for (ServiceRates::Tenant& each : rates_.tenants) {
      if (!(each.sent_per_second > 0)) continue;
      each.share = each.sent_per_second / sent;
      const Sharer& sharer = sharers[each.sharer];
      each.due = weight > 0 ? sharer.weight / weight / sharer.tenants : 0;
    }
  }

  void add(const LinkView& now) {
    const auto known = links_.find(now.name);
    ServiceRates::Link link{.name = now.name, .capacity = now.capacity};
    for (const auto& [tenant, bytes] : now.bytes_by_tenant) {
      uint64_t before = 0;
      if (known != links_.end()) {
        const auto counted = known->second->bytes_by_tenant.find(tenant);
        if (counted != known->second->bytes_by_tenant.end()) before = counted->second;
      }
      const double rate = static_cast<double>(grown(before, bytes)) * per_second_;
      if (rate > 0) link.by_tenant.emplace_back(tenant, rate);
      link.per_second += rate;
    }
    std::stable_sort(link.by_tenant.begin(), link.by_tenant.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    rates_.links.push_back(std::move(link));
  }

  const ClusterView& second_;
  std::set<std::string> hosts_;                                        // of the first view, as all below
  std::map<std::pair<std::string, uint32_t>, const RankView*> ranks_;  // by communicator and rank
  std::map<std::string, const LinkView*> links_;
  std::map<std::string, double> rank_seconds_;  // by tenant, of ranks that the daemons carry
  double per_second_ = 0;
  ServiceRates rates_;
};

}  // namespace

ServiceRates rates_between(const ClusterView& first, const ClusterView& second) {
  return Comparison(first, second).rates();
}

}  // namespace banyan::app
