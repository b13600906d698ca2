#include <set>
#include <utility>

#include "banyan/service/share/tenant_label.h"
#include "banyan/service/view/metrics.h"

namespace banyan::service {
namespace {

RankTotals totals_of(const RankView& rank) {
  return {.calls = rank.calls_over,
          .messages = rank.messages_over,
          .payload_bytes = rank.payload_bytes,
          .sent_tcp_bytes = rank.sent_tcp_bytes,
          .sent_shared_memory_bytes = rank.sent_shared_memory_bytes,
          .reroutes = rank.reroutes,
          .core_seconds = rank.core_seconds};
}

}  // namespace

RankTotals& RankTotals::operator+=(const RankTotals& other) {
  calls += other.calls;
  messages += other.messages;
  payload_bytes += other.payload_bytes;
  sent_tcp_bytes += other.sent_tcp_bytes;
  sent_shared_memory_bytes += other.sent_shared_memory_bytes;
  reroutes += other.reroutes;
  core_seconds += other.core_seconds;
  return *this;
}

void MetricsMemory::choose_labels(const HostView& view) {
  std::map<std::string, Name> labels;
  std::set<std::string> tenants;
  std::set<Name> names;
  std::map<std::string, size_t> names_of_users;
  const auto add = [&](const std::string& id, const Name& name) {
    labels.emplace(id, name);
    tenants.insert(name.first);
    if (names.insert(name).second) ++names_of_users[user_of(name.first)];
  };
  for (const CommunicatorView& communicator : view.communicators) {
    const auto former = labels_.find(communicator.id);
    if (former != labels_.end()) add(former->first, former->second);
  }
  for (const CommunicatorView& communicator : view.communicators) {
    if (labels.contains(communicator.id)) continue;
    Name name(tenant_label(communicator.tenant, tenants, kMostTenants), communicator.name);
    const bool has_room = names.size() < kMostNames && names_of_users[user_of(name.first)] < kMostNamesOfUser;
    if (!has_room && !names.contains(name)) name.second = kOthers;
    add(communicator.id, name);
  }
  labels_ = std::move(labels);
}

void MetricsMemory::note(const HostView& view) {
  choose_labels(view);
  std::map<std::pair<std::string, uint32_t>, Rank> ranks;
  for (const CommunicatorView& communicator : view.communicators) {
    for (const RankView& rank : communicator.ranks) {
      const std::pair key(communicator.id, rank.rank);
      ranks_.erase(key);
      ranks[key] = {.name = labels_.at(communicator.id), .totals = totals_of(rank)};
    }
  }
  for (const auto& [key, rank] : ranks_) {  // those that are there no more
    ended_by_name_[rank.name] += rank.totals;
    ended_by_tenant_[rank.name.first] += rank.totals;
  }
  ranks_ = std::move(ranks);
  sum();
}

void MetricsMemory::sum() {
  by_name_.clear();
  by_tenant_.clear();
  for (const auto& [key, rank] : ranks_) {
    by_name_[rank.name] += rank.totals;
    by_tenant_[rank.name.first] += rank.totals;
  }
  std::erase_if(ended_by_name_, [&](const auto& each) { return !by_name_.contains(each.first); });
  std::erase_if(ended_by_tenant_, [&](const auto& each) { return !by_tenant_.contains(each.first); });
  for (const auto& [name, totals] : ended_by_name_) by_name_[name] += totals;
  for (const auto& [tenant, totals] : ended_by_tenant_) by_tenant_[tenant] += totals;
}

}  // namespace banyan::service
