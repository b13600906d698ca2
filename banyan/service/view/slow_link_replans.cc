#include "banyan/service/view/slow_link_replans.h"

#include <algorithm>
#include <utility>

namespace banyan::service {

bool SlowLinkReplans::Link::may_change(Time now, size_t times) {
  while (!changes.empty() && now - changes.front() >= kPeriod) changes.pop_front();
  return changes.size() + times <= kMostChanges;
}

void SlowLinkReplans::record_names(std::span<const SlowLink> slow, Time now) {
  const bool goes_on = looked_ && now - *looked_ <= kGap;
  std::set<std::string> names;
  for (const SlowLink& each : slow) names.insert(each.links.begin(), each.links.end());
  for (const std::string& name : names) {
    if (!left_.contains(name)) links_[name].last_named = now;
  }
  for (auto& [name, link] : links_) {
    if (!names.contains(name)) {
      link.named.reset();
    } else if (!link.named || !goes_on) {
      link.named = now;
    }
  }
  looked_ = now;
}

// Nobody but the slow ways uses any of its links to the full, so it costs nobody anything to plan for all of them.
SlowLinkReplans::Rates SlowLinkReplans::around(const SlowLink& slow, Time now) {
  Rates rates;
  if (slow.bytes_per_second == 0) return rates;  // what carries nothing is lost, and is found to be
  for (const std::string& name : slow.links) {
    const auto found = links_.find(name);
    if (found == links_.end()) continue;
    Link& link = found->second;
    const bool is_news = !link.rate || slow.bytes_per_second < *link.rate / 2;
    if (is_news && link.named && now - *link.named >= kSure && link.may_change(now, 1)) {
      rates[name] = slow.bytes_per_second;
    }
  }
  return rates;
}

SlowLinkReplans::Rates SlowLinkReplans::tries(Time now) {
  Rates rates;
  for (auto& [name, link] : links_) {
    const bool is_due = link.rate && now - std::max(link.last_named, link.changed) >= link.retry;
    if (is_due && link.may_change(now, 2)) rates[name] = std::nullopt;
  }
  return rates;
}

void SlowLinkReplans::forget_those_that_are_well(Time now) {
  std::erase_if(links_, [&](const auto& each) {
    const Link& link = each.second;
    const bool is_well = !link.rate && !link.named && now - std::max(link.last_named, link.changed) >= link.retry;
    return is_well && (link.changes.empty() || now - link.changes.back() >= kPeriod);
  });
}

std::vector<SlowLinkReplans::Change> SlowLinkReplans::look(std::span<const SlowLink> slow,
                                                           const std::set<std::string>& communicators, Time now) {
  record_names(slow, now);
  // All in one change of plans. A link that is tried is not named.
  Rates rates = tries(now);
  for (const SlowLink& each : slow) rates.merge(around(each, now));
  record(rates, now);
  std::vector<Change> changes;
  if (!rates.empty()) changes.push_back({.rates = std::move(rates)});
  forget_those_that_are_well(now);
  // Those that have been opened since.
  Rates present;
  for (const auto& [name, link] : links_) {
    if (link.rate) present[name] = link.rate;
  }
  if (changes.empty() && !present.empty()) {
    for (const std::string& each : communicators) {
      if (!following_.contains(each)) changes.push_back({.communicator = each, .rates = present});
    }
  }
  following_ = communicators;
  return changes;
}

void SlowLinkReplans::record(const Rates& rates, Time now) {
  for (const auto& [name, rate] : rates) {
    const auto known = links_.find(name);
    const bool is_known = known == links_.end() ? !rate : known->second.rate == rate;
    if (is_known || left_.contains(name)) continue;
    Link& link = links_[name];
    // A try has shown that it is as it was.
    if (rate && !link.rate && !link.changes.empty()) link.retry = std::min(2 * link.retry, kLongestRetry);
    link.rate = rate;
    link.changed = now;
    link.named.reset();
    link.changes.push_back(now);
    link.may_change(now, 0);
  }
}

void SlowLinkReplans::leave(const std::string& link) {
  left_.insert(link);
  links_.erase(link);
}

std::vector<SlowLinkReplans::Planned> SlowLinkReplans::planned() const {
  std::vector<Planned> planned;
  for (const auto& [name, link] : links_) {
    if (link.rate) planned.push_back({.link = name, .bytes_per_second = *link.rate});
  }
  return planned;
}

}  // namespace banyan::service
