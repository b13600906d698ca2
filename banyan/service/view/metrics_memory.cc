#include <set>
#include <utility>

#include "banyan/service/share/tenant_label.h"
#include "banyan/service/view/metrics.h"
#include "banyan/service/view/view_fields.h"

namespace banyan::service {
namespace {

// The counts of a rank, and nothing else of it.
RankView counts_of(const RankView& rank) {
  RankView counts;
  join(counts, RankView(rank));
  return counts;
}

void add_all(RankView& sums, RankView counts) { join(sums, std::move(counts)); }

}  // namespace

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

void MetricsMemory::record(const HostView& view) {
  choose_labels(view);
  std::map<std::pair<std::string, uint32_t>, Rank> ranks;
  for (const CommunicatorView& communicator : view.communicators) {
    for (const RankView& rank : communicator.ranks) {
      const std::pair key(communicator.id, rank.rank);
      ranks_.erase(key);
      ranks[key] = {.name = labels_.at(communicator.id), .counts = counts_of(rank)};
    }
  }
  for (const auto& [key, rank] : ranks_) {  // those that are there no more
    add_all(ended_by_name_[rank.name], rank.counts);
    add_all(ended_by_tenant_[rank.name.first], rank.counts);
  }
  ranks_ = std::move(ranks);
  sum();
}

void MetricsMemory::sum() {
  by_name_.clear();
  by_tenant_.clear();
  for (const auto& [key, rank] : ranks_) {
    add_all(by_name_[rank.name], rank.counts);
    add_all(by_tenant_[rank.name.first], rank.counts);
  }
  std::erase_if(ended_by_name_, [&](const auto& each) { return !by_name_.contains(each.first); });
  std::erase_if(ended_by_tenant_, [&](const auto& each) { return !by_tenant_.contains(each.first); });
  for (const auto& [name, counts] : ended_by_name_) add_all(by_name_[name], counts);
  for (const auto& [tenant, counts] : ended_by_tenant_) add_all(by_tenant_[tenant], counts);
}

}  // namespace banyan::service
