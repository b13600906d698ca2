#include "banyan/predict/fluid/max_min.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::predict {

MaxMin::MaxMin(std::vector<double> capacities)
    : link_count_(capacities.size()), links_(link_count_), link_flows_(link_count_), queue_(link_count_) {
  for (size_t link = 0; link < capacities.size(); ++link) {
    CHECK(capacities[link] >= 0) << "link " << link << " has capacity " << capacities[link];
    links_[link].free = links_[link].capacity = capacities[link];
  }
}

uint32_t MaxMin::allot_hops(uint32_t count) {
  if (count < free_hops_.size() && !free_hops_[count].empty()) {
    const uint32_t first = free_hops_[count].back();
    free_hops_[count].pop_back();
    return first;
  }
  const size_t first = hops_.size();
  CHECK(first + count < UINT32_MAX) << "hops of all flows: " << first;
  hops_.resize(first + count);
  return static_cast<uint32_t>(first);
}

uint32_t MaxMin::allot_cap(double capacity) {
  if (free_caps_.empty()) {
    free_caps_.push_back(static_cast<uint32_t>(links_.size()));
    links_.emplace_back();
    link_flows_.emplace_back();
    queue_.resize(links_.size());
  }
  const uint32_t link = free_caps_.back();
  free_caps_.pop_back();
  links_[link].free = links_[link].capacity = capacity;
  return link;
}

void MaxMin::mark_dirty(uint32_t link) {
  if (std::exchange(links_[link].touched, solving_ + 1) != solving_ + 1) dirty_links_.push_back(link);
}

void MaxMin::add(uint32_t flow, const Terms& terms) {
  if (flow >= flows_.size()) {
    flows_.resize(flow + 1);
    holder_of_.resize(flow + 1, kNoLink);
  }
  FlowRow& row = flows_[flow];
  CHECK(!row.is_present) << "flow " << flow;
  CHECK(terms.weight > 0 && terms.multiplicity > 0) << "weight " << terms.weight << " x " << terms.multiplicity;
  const bool is_capped = terms.cap < kUnlimited;
  CHECK(!terms.hops.empty() || is_capped) << "flow " << flow << " has no rate";
  const uint32_t count = static_cast<uint32_t>(terms.hops.size()) + (is_capped ? 1 : 0);
  row = {.weight = terms.weight, .first_hop = allot_hops(count), .hop_count = count, .is_present = true};
  // The cap is met at level cap / weight.
  if (is_capped) row.cap_link = allot_cap(terms.cap / terms.weight);
  for (uint32_t i = 0; i < count; ++i) {
    const bool is_cap = i == terms.hops.size();
    const FluidHop hop = is_cap ? FluidHop{row.cap_link, 1} : terms.hops[i];
    CHECK((is_cap || hop.link < link_count_) && hop.coefficient > 0) << "link " << hop.link << " x " << hop.coefficient;
    const double use = is_cap ? 1 : hop.coefficient * terms.weight * terms.multiplicity;
    LinkFlows& on = link_flows_[hop.link];
    const uint32_t at = row.first_hop + i;
    hops_[at] = {.use = use, .link = hop.link, .place = links_[hop.link].crossing++, .share = 0};
    on.crossing.push_back({flow, at});
    on.total_use += use;
  }
  ++present_;
  joining_.push_back(flow);
}

void MaxMin::remove(uint32_t flow) {
  FlowRow& row = flows_[flow];
  CHECK(row.is_present) << "flow " << flow;
  const double level = holder_of_[flow] == kNoLink ? 0 : links_[holder_of_[flow]].level;
  for (uint32_t at = row.first_hop; at < row.first_hop + row.hop_count; ++at) {
    const Hop& hop = hops_[at];
    LinkRow& link = links_[hop.link];
    LinkFlows& on = link_flows_[hop.link];
    on.crossing[hop.place] = on.crossing.back();
    hops_[on.crossing[hop.place].hop].place = hop.place;
    on.crossing.pop_back();
    on.total_use -= hop.use;
    link.free += hop.use * level;
    if (--link.crossing == 0) {
      link.free = link.capacity;
      on.total_use = 0;
    }
    mark_dirty(hop.link);
  }
  let_go(flow);
  if (row.cap_link != kNoLink) free_caps_.push_back(row.cap_link);
  if (row.hop_count >= free_hops_.size()) free_hops_.resize(row.hop_count + 1);
  free_hops_[row.hop_count].push_back(row.first_hop);
  row.is_present = false;
  --present_;
}

void MaxMin::set_capacity(uint32_t link, double capacity) {
  CHECK(capacity >= 0) << "link " << link << " gets capacity " << capacity;
  links_[link].free += capacity - links_[link].capacity;
  links_[link].capacity = capacity;
  mark_dirty(link);
}

std::span<const MaxMin::Hop> MaxMin::hops(uint32_t flow) const {
  const FlowRow& row = flows_[flow];
  return std::span(hops_).subspan(row.first_hop, row.hop_count - (row.cap_link == kNoLink ? 0 : 1));
}

MaxMin::LinkRow& MaxMin::touch(uint32_t number) {
  LinkRow& row = links_[number];
  if (std::exchange(row.touched, solving_) != solving_) touched_.push_back(number);
  return row;
}

void MaxMin::join_new(uint32_t flow) {
  FlowRow& row = flows_[flow];
  if (!row.is_present || std::exchange(row.joined, solving_) == solving_) return;
  ++joined_;
  for (uint32_t at = row.first_hop; at < row.first_hop + row.hop_count; ++at) {
    LinkRow& on = touch(hops_[at].link);
    on.demand += hops_[at].use;
    ++on.rising;
  }
}

// Its flows rise. Also those of one that has filled in this solve.
void MaxMin::join_holder(uint32_t number) {
  LinkRow& holder = links_[number];
  const bool is_again = is_member(number);
  if (is_again && holder.filled != solving_) return;
  holder.member = solving_;
  holder.filled = 0;
  const std::vector<Share>& shares = link_flows_[number].shares;
  if (is_sweeping_) {
    for (const Share& share : shares) {
      if (share.flows > 0) join_late(share, holder.level, is_again);
    }
    return;
  }
  joined_ += holder.held;
  // Without a branch that depends on the link: half of the time goes by here.
  const size_t before = touched_.size();
  touched_.resize(before + shares.size());
  uint32_t* end = touched_.data() + before;
  LinkRow* const rows = links_.data();
  const uint32_t solving = solving_;
  const double level = holder.level;
  for (const Share& share : shares) {
    LinkRow& row = rows[share.link];
    *end = share.link;
    const uint32_t touched = share.flows > 0 ? solving : row.touched;
    end += row.touched == touched ? 0 : 1;
    row.touched = touched;
    give_back(row, share, level);
  }
  touched_.resize(static_cast<size_t>(end - touched_.data()));
}

// While the sweep goes on.
void MaxMin::join_late(const Share& share, double level, bool is_again) {
  LinkRow& link = links_[share.link];
  if (link.touched != solving_) link.joined = 0;
  give_back(touch(share.link), share, level);
  if (!is_again) link.joined += share.flows;
  if (link.held == 0) return;
  if (!is_member(share.link) || link.filled == solving_) to_join_.push_back(share.link);
  // It may fill sooner than it is queued for.
  requeue(share.link);
}

void MaxMin::join_whoever_is_affected() {
  for (;;) {
    if (!is_sweeping_ && joined_ > present_ / 2 && joined_ < present_) return join_all();
    if (!to_join_.empty()) {
      const uint32_t holder = to_join_.back();
      to_join_.pop_back();
      if (links_[holder].held > 0) join_holder(holder);
    } else if (!is_sweeping_ && seen_ < touched_.size()) {
      const uint32_t link = touched_[seen_++];
      if (links_[link].held > 0) join_holder(link);
      if (links_[link].free < 0) queue_all_on(link);
    } else {
      return;
    }
  }
}

// Of a link that has become too small for what is on it.
void MaxMin::queue_all_on(uint32_t number) {
  for (const Crossing& crossing : link_flows_[number].crossing) {
    const uint32_t holder = holder_of_[crossing.flow];
    if (holder != kNoLink && !is_member(holder)) to_join_.push_back(holder);
  }
}

void MaxMin::join_all() {
  all_joined_ = true;
  to_join_.clear();
  for (uint32_t number = 0; number < links_.size(); ++number) {
    LinkRow& link = links_[number];
    if (link.crossing == 0) continue;
    touch(number);
    link.demand = link_flows_[number].total_use;
    link.rising = link.crossing;
  }
}

bool MaxMin::queue_if_lower(uint32_t number, double level) {
  if (!is_lower(links_[number], level)) return false;
  requeue(number);
  return true;
}

bool MaxMin::queue_lower(uint32_t number, double level) {
  bool any = false;
  for (const Share& share : link_flows_[number].shares) any |= queue_if_lower(share.link, level);
  if (any || links_[number].rising == links_[number].held) return any;
  for (const Crossing& crossing : link_flows_[number].crossing) {
    const uint32_t holder = holder_of_[crossing.flow];
    if (holder == number || !is_rising(holder)) continue;
    const FlowRow& flow = flows_[crossing.flow];
    for (uint32_t at = flow.first_hop; at < flow.first_hop + flow.hop_count; ++at) {
      any |= queue_if_lower(hops_[at].link, level);
    }
  }
  return any;
}

bool MaxMin::join_higher(uint32_t number, double level) {
  const LinkRow& link = links_[number];
  // While it held anybody nobody on it was above its level.
  const bool may_be_outside = link.joined < link.crossing && (link.held == 0 || level < link.level);
  if (!may_be_outside && level >= highest_) return false;
  for (const Crossing& crossing : link_flows_[number].crossing) {
    const uint32_t holder = holder_of_[crossing.flow];
    if (!is_rising(holder) && links_[holder].level * kAsGood > level) to_join_.push_back(holder);
  }
  const bool any = !to_join_.empty();
  join_whoever_is_affected();
  return any;
}

void MaxMin::requeue(uint32_t number) {
  if (links_[number].rising != 0) queue_.push(number, level_now(number));
}

// From its holder, if it has one.
void MaxMin::let_go(uint32_t flow) {
  const uint32_t number = std::exchange(holder_of_[flow], kNoLink);
  if (number == kNoLink) return;
  LinkFlows& holder = link_flows_[number];
  if (--links_[number].held == 0) {
    holder.shares.clear();
    spare_shares_.push_back(std::move(holder.shares));
    holder.dead_shares = 0;
    return;
  }
  const FlowRow& row = flows_[flow];
  for (uint32_t at = row.first_hop; at < row.first_hop + row.hop_count; ++at) {
    Share& share = holder.shares[hops_[at].share];
    share.use -= hops_[at].use;
    if (--share.flows > 0) continue;
    share.use = 0;
    ++holder.dead_shares;
  }
}

void MaxMin::hold(uint32_t flow, uint32_t number) {
  holder_of_[flow] = number;
  LinkFlows& holder = link_flows_[number];
  if (links_[number].held++ == 0) {
    holder.most_shares = kFewShares;
    if (!spare_shares_.empty()) {
      holder.shares = std::move(spare_shares_.back());
      spare_shares_.pop_back();
    }
  }
  const FlowRow& row = flows_[flow];
  for (uint32_t at = row.first_hop; at < row.first_hop + row.hop_count; ++at) {
    hops_[at].share = static_cast<uint32_t>(holder.shares.size());
    holder.shares.push_back({hops_[at].use, hops_[at].link, 1});
  }
}

// One share a link, its sum computed afresh.
void MaxMin::tidy_shares(uint32_t number) {
  LinkFlows& holder = link_flows_[number];
  share_of_.resize(links_.size(), 0);
  holder.shares.clear();
  holder.dead_shares = 0;
  for (const Crossing& crossing : holder.crossing) {
    if (holder_of_[crossing.flow] != number) continue;
    const FlowRow& row = flows_[crossing.flow];
    for (uint32_t at = row.first_hop; at < row.first_hop + row.hop_count; ++at) {
      Hop& hop = hops_[at];
      uint32_t& place = share_of_[hop.link];
      if (place == 0) {
        holder.shares.push_back({0, hop.link, 0});
        place = static_cast<uint32_t>(holder.shares.size());
      }
      hop.share = place - 1;
      holder.shares[hop.share].use += hop.use;
      ++holder.shares[hop.share].flows;
    }
  }
  for (const Share& share : holder.shares) share_of_[share.link] = 0;
  // So that looking at all that crosses pays.
  holder.most_shares = static_cast<uint32_t>(kFewShares + holder.shares.size() * 5 / 4);
}

void MaxMin::hold_whoever_rises(uint32_t number) {
  for (const Crossing& crossing : link_flows_[number].crossing) {
    const uint32_t flow = crossing.flow, from = holder_of_[flow];
    if (from == number || !is_rising(from)) continue;
    let_go(flow);
    hold(flow, number);
    moved_.push_back({flow, from});
  }
}

bool MaxMin::fill(uint32_t number, double level) {
  LinkRow& link = links_[number];
  const uint32_t& rising = links_[number].rising;
  const bool are_same = rising == link.held;
  if (!are_same && queue_lower(number, level)) return false;
  if (join_higher(number, level)) return false;
  if (!are_same) hold_whoever_rises(number);
  CHECK(rising == link.held) << "on link " << number << ' ' << rising << " flows rise, " << link.held
                             << " are held back";
  LinkFlows& holder = link_flows_[number];
  const bool many_are_dead = holder.dead_shares > holder.shares.size() / 8 + holder.crossing.size() / 8;
  if (holder.shares.size() > holder.most_shares || many_are_dead) tidy_shares(number);
  // Looked at and taken in one go: that one of them is lower is rare.
  LinkRow* const rows = links_.data();
  bool any_lower = false;
  for (const Share& share : holder.shares) {
    any_lower |= is_lower(rows[share.link], level);
    take(rows[share.link], share, level);
  }
  if (any_lower && are_same) {
    for (const Share& share : holder.shares) give_back(rows[share.link], share, level);
    if (queue_lower(number, level)) return false;
    for (const Share& share : holder.shares) take(rows[share.link], share, level);
  }
  link.filled = solving_;
  highest_ = std::max(highest_, level);
  if (link.level != level) {
    link.level = level;
    changed_.push_back(number);
  }
  return true;
}

void MaxMin::sum_demand(uint32_t number) {
  double& demand = links_[number].demand;
  demand = 0;
  for (const Crossing& crossing : link_flows_[number].crossing) {
    if (is_rising(holder_of_[crossing.flow])) demand += hops_[crossing.hop].use;
  }
}

void MaxMin::refresh(uint32_t number) {
  LinkRow& link = links_[number];
  link.joined = link.rising;
  if (link.joined == link.crossing) {
    link.free = link.capacity;
    return;
  }
  if (++link.solves <= kRefresh) return;
  link.solves = 0;
  link.free = link.capacity;
  for (const Crossing& crossing : link_flows_[number].crossing) {
    const uint32_t holder = holder_of_[crossing.flow];
    if (holder != kNoLink && !is_member(holder)) link.free -= hops_[crossing.hop].use * links_[holder].level;
  }
}

void MaxMin::sweep() {
  for (const uint32_t number : touched_) {
    refresh(number);
    if (links_[number].held > 0) requeue(number);
  }
  // By one of its links a new flow is found.
  for (const uint32_t flow : joining_) {
    if (flows_[flow].is_present) requeue(hops_[flows_[flow].first_hop].link);
  }
  is_sweeping_ = true;
  const auto level_of = [this](uint32_t link) { return level_now(link); };
  uint64_t tries = 0;
  for (uint32_t number = 0; queue_.pop(&number, level_of);) {
    CHECK(++tries < kMostTries * (links_.size() + 1)) << "link " << number << " at level " << level_now(number);
    if (links_[number].demand < kCancelled * link_flows_[number].total_use) sum_demand(number);
    const double level = level_now(number);
    if (!fill(number, level)) requeue(number);
  }
  queue_.clear();
  is_sweeping_ = false;
}

void MaxMin::find_who_changes() {
  unseen_ = 0;
  for (const uint32_t flow : joining_) join_new(flow);
  join_whoever_is_affected();
  if (all_joined_ && large_lately_ < kLately) ++large_lately_;
  if (!all_joined_ && large_lately_ > 0) --large_lately_;
}

void MaxMin::see_whether_busy(uint32_t number) {
  LinkRow& link = links_[number];
  const bool is_busy = link.crossing > 0 && link.free <= kRounding * link.capacity;
  if (is_busy != std::exchange(link.is_busy, is_busy)) turned_.push_back(number);
}

void MaxMin::solve() {
  moved_.clear();
  changed_.clear();
  turned_.clear();
  touched_.clear();
  if (is_solved()) return;
  touched_.swap(dirty_links_);
  CHECK(++solving_ != 0) << "more solves than can be counted";
  all_joined_ = false;
  joined_ = 0;
  highest_ = 0;
  seen_ = 0;
  if (large_lately_ > kLately / 2 && unseen_ < kMostUnseen) {
    ++unseen_;
    join_all();
  } else {
    find_who_changes();
  }
  sweep();
  for (const uint32_t link : touched_) {
    links_[link].demand = 0;
    if (link < link_count_) see_whether_busy(link);
  }
  joining_.clear();
}

}  // namespace banyan::predict
