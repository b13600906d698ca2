#include "banyan/predict/fluid/max_min.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "banyan/base/check.h"

namespace banyan {

MaxMin::MaxMin(std::vector<double> capacities)
    : links_(capacities.size()), link_terms_(capacities.size()), queue_(capacities.size()) {
  for (size_t link = 0; link < capacities.size(); ++link) {
    CHECK(capacities[link] >= 0) << "link " << link << " has capacity " << capacities[link];
    links_[link].free = link_terms_[link].capacity = capacities[link];
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
  given_hops_.resize(first + count);
  return static_cast<uint32_t>(first);
}

void MaxMin::mark_dirty(uint32_t link) {
  if (links_[link].is_dirty) return;
  links_[link].is_dirty = true;
  dirty_links_.push_back(link);
}

void MaxMin::add(uint32_t flow, const Terms& terms) {
  if (flow >= flows_.size()) {
    flows_.resize(flow + 1);
    flow_terms_.resize(flow + 1);
  }
  CHECK(!flow_terms_[flow].is_present) << "flow " << flow;
  CHECK(terms.weight > 0 && terms.multiplicity > 0) << "weight " << terms.weight << " x " << terms.multiplicity;
  CHECK(!terms.hops.empty() || terms.cap < kUnlimited) << "flow " << flow << " has no rate";
  const uint32_t count = static_cast<uint32_t>(terms.hops.size());
  FlowRow& row = flows_[flow];
  row = {.cap = terms.cap / terms.weight, .first_hop = allot_hops(count), .hop_count = count};
  flow_terms_[flow] = {.weight = terms.weight, .priority = terms.priority, .is_present = true};
  for (uint32_t i = 0; i < count; ++i) {
    const FluidHop& hop = terms.hops[i];
    CHECK(hop.link < links_.size() && hop.coefficient > 0) << "link " << hop.link << " x " << hop.coefficient;
    std::vector<Crossing>& crossing = link_terms_[hop.link].crossing;
    const uint32_t at = row.first_hop + i;
    given_hops_[at] = hop;
    hops_[at] = {hop.link, static_cast<uint32_t>(crossing.size()), hop.coefficient * terms.weight * terms.multiplicity};
    crossing.push_back({flow, at});
    link_terms_[hop.link].total_use += hops_[at].use;
  }
  ++present_;
  joining_.push_back(flow);
  if (row.cap < kUnlimited) ++capped_;
  if (flows_by_priority_[terms.priority]++ == 0 && ++priorities_ > 1) must_solve_everything_ = true;
}

void MaxMin::remove(uint32_t flow) {
  FlowRow& row = flows_[flow];
  CHECK(flow_terms_[flow].is_present) << "flow " << flow;
  for (uint32_t at = row.first_hop; at < row.first_hop + row.hop_count; ++at) {
    const Hop& hop = hops_[at];
    LinkRow& link = links_[hop.link];
    std::vector<Crossing>& crossing = link_terms_[hop.link].crossing;
    crossing[hop.place] = crossing.back();
    hops_[crossing[hop.place].hop].place = hop.place;
    crossing.pop_back();
    link.free += hop.use * row.level;
    link_terms_[hop.link].total_use -= hop.use;
    if (crossing.empty()) {
      link.free = link_terms_[hop.link].capacity;
      link_terms_[hop.link].total_use = 0;
    }
    if (link.is_full || link.is_busy) mark_dirty(hop.link);
  }
  if (row.hop_count >= free_hops_.size()) free_hops_.resize(row.hop_count + 1);
  free_hops_[row.hop_count].push_back(row.first_hop);
  flow_terms_[flow].is_present = false;
  --present_;
  if (row.cap < kUnlimited) --capped_;
  if (--flows_by_priority_[flow_terms_[flow].priority] == 0 && --priorities_ > 0) must_solve_everything_ = true;
}

void MaxMin::set_capacity(uint32_t link, double capacity) {
  CHECK(capacity >= 0) << "link " << link << " gets capacity " << capacity;
  links_[link].free += capacity - link_terms_[link].capacity;
  link_terms_[link].capacity = capacity;
  mark_dirty(link);
}

std::span<const FluidHop> MaxMin::hops(uint32_t flow) const {
  return std::span(given_hops_).subspan(flows_[flow].first_hop, flows_[flow].hop_count);
}

MaxMin::LinkRow& MaxMin::touch(uint32_t number) {
  LinkRow& link = links_[number];
  if (link.solving == solving_) return link;
  link.solving = solving_;
  link.joined = link.rising = 0;
  link.demand = 0;
  link.is_filled = false;
  touched_.push_back(number);
  return link;
}

void MaxMin::join(uint32_t flow) {
  FlowRow& row = flows_[flow];
  if (has_joined(row)) return;
  row.solving = solving_;
  ++joined_;
  for (uint32_t at = row.first_hop; at < row.first_hop + row.hop_count; ++at) {
    const Hop& hop = hops_[at];
    LinkRow& link = touch(hop.link);
    link.free += hop.use * row.level;
    link.demand += hop.use;
    ++link.rising;
    ++link.joined;
    if (link.is_full && !link.is_filled) full_to_visit_.push_back(hop.link);
    // It may fill sooner than it is queued for.
    if (is_sweeping_) requeue(hop.link);
  }
  if (row.cap < kUnlimited) {
    caps_.emplace_back(row.cap, flow);
    std::push_heap(caps_.begin(), caps_.end(), std::greater<>());
  }
}

void MaxMin::join_held_by(uint32_t link) {
  for (const Crossing& crossing : link_terms_[link].crossing) {
    if (flows_[crossing.flow].held_by == link) join(crossing.flow);
  }
}

void MaxMin::join_all() {
  all_joined_ = true;
  full_to_visit_.clear();
  caps_.clear();
  for (uint32_t number = 0; number < links_.size(); ++number) {
    const LinkTerms& terms = link_terms_[number];
    if (terms.crossing.empty() && !links_[number].is_full && !links_[number].is_busy) continue;
    LinkRow& link = touch(number);
    link.is_full = false;
    link.free = terms.capacity;
    link.demand = terms.total_use;
    link.rising = link.joined = static_cast<uint32_t>(terms.crossing.size());
  }
  for (uint32_t flow = 0; flow < flows_.size() && capped_ > 0; ++flow) {
    if (flow_terms_[flow].is_present && flows_[flow].cap < kUnlimited) caps_.emplace_back(flows_[flow].cap, flow);
  }
  std::make_heap(caps_.begin(), caps_.end(), std::greater<>());
}

void MaxMin::join_whoever_is_affected() {
  while (!full_to_visit_.empty()) {
    if (joined_ > present_ / 2 && !is_sweeping_) return join_all();
    const uint32_t link = full_to_visit_.back();
    full_to_visit_.pop_back();
    if (!std::exchange(links_[link].is_full, false)) continue;
    join_held_by(link);
  }
}

bool MaxMin::join_above(uint32_t link, double level) {
  bool any = false;
  filling_.clear();
  for (const Crossing& crossing : link_terms_[link].crossing) {
    const FlowRow& row = flows_[crossing.flow];
    if (is_rising(row)) {
      filling_.push_back(crossing.flow);
    } else if (row.level > level && !has_joined(row)) {
      any = true;
      join(crossing.flow);
    }
  }
  if (any) join_whoever_is_affected();
  return any;
}

void MaxMin::requeue(uint32_t number) {
  const LinkRow& link = links_[number];
  if (link.rising != 0) queue_.push(number, level_of(link));
}

void MaxMin::fix(uint32_t flow, double level, uint32_t by) {
  FlowRow& row = flows_[flow];
  row.solving = solving_ | kFixed;
  row.held_by = by;
  if (row.level != level) {
    row.level = level;
    changed_.push_back(flow);
  }
  for (uint32_t at = row.first_hop; at < row.first_hop + row.hop_count; ++at) {
    const Hop& hop = hops_[at];
    LinkRow& link = links_[hop.link];
    link.free -= hop.use * level;
    link.demand -= hop.use;
    if (--link.rising == 0) queue_.remove(hop.link);
  }
}

void MaxMin::fix_caps_up_to(double level) {
  while (!caps_.empty() && caps_.front().first <= level) {
    std::pop_heap(caps_.begin(), caps_.end(), std::greater<>());
    const auto [cap, flow] = caps_.back();
    caps_.pop_back();
    if (is_rising(flows_[flow])) fix(flow, cap, kNoLink);
  }
}

// `filling_` are the flows that rise on it.
void MaxMin::fill(uint32_t number, double level) {
  links_[number].is_full = links_[number].is_filled = true;
  for (size_t i = 0; i < filling_.size(); ++i) {
    if (i + kAhead < filling_.size()) __builtin_prefetch(&hops_[flows_[filling_[i + kAhead]].first_hop]);
    fix(filling_[i], level, number);
  }
}

void MaxMin::refresh(uint32_t number) {
  LinkRow& link = links_[number];
  LinkTerms& terms = link_terms_[number];
  if (link.joined == terms.crossing.size()) {
    link.free = terms.capacity;
    terms.solves = 0;
  } else if (++terms.solves > kRefresh) {
    link.free = terms.capacity;
    for (const Crossing& crossing : terms.crossing) {
      if (!has_joined(flows_[crossing.flow])) link.free -= hops_[crossing.hop].use * flows_[crossing.flow].level;
    }
    terms.solves = 0;
  }
}

void MaxMin::sweep(Others others) {
  for (const uint32_t number : touched_) {
    refresh(number);
    requeue(number);
  }
  is_sweeping_ = true;
  const auto level_now = [this](uint32_t link) { return level_of(links_[link]); };
  for (uint32_t number = 0; queue_.pop(&number, level_now);) {
    const double level = level_of(links_[number]);
    if (!caps_.empty() && caps_.front().first <= level) {
      // The flows that stop rising here leave more to the others.
      fix_caps_up_to(caps_.front().first);
      requeue(number);
    } else if (join_above(number, others == Others::join ? level : kUnlimited)) {
      requeue(number);
    } else {
      fill(number, level);
    }
  }
  fix_caps_up_to(kUnlimited);
  queue_.clear();
  is_sweeping_ = false;
}

void MaxMin::begin_solve() {
  ++solving_;
  CHECK(solving_ < kFixed) << "more solves than can be counted";
  touched_.clear();
  all_joined_ = false;
  joined_ = 0;
}

void MaxMin::solve_changes() {
  begin_solve();
  if (large_lately_ > kLately / 2 && unseen_ < kMostUnseen) {
    ++unseen_;
    join_all();
  } else {
    unseen_ = 0;
    for (const uint32_t number : dirty_links_) {
      const LinkRow& link = touch(number);
      if (link.is_full) full_to_visit_.push_back(number);
      if (link.free >= 0) continue;
      for (const Crossing& crossing : link_terms_[number].crossing) join(crossing.flow);
    }
    for (const uint32_t flow : joining_) {
      if (flow_terms_[flow].is_present) join(flow);
    }
    join_whoever_is_affected();
    if (all_joined_ && large_lately_ < kLately) ++large_lately_;
    if (!all_joined_ && large_lately_ > 0) --large_lately_;
  }
  sweep(Others::join);
  for (const uint32_t link : touched_) see_whether_busy(link);
}

// Priority after priority, each on what is left. Also after that, once, since the levels of links are those of their
// last priority.
void MaxMin::solve_everything() {
  std::vector<std::pair<uint8_t, uint32_t>> order;
  std::vector<double> before(flows_.size());
  for (uint32_t flow = 0; flow < flows_.size(); ++flow) {
    if (flow_terms_[flow].is_present) order.emplace_back(flow_terms_[flow].priority, flow);
    before[flow] = std::exchange(flows_[flow].level, 0);
    flows_[flow].held_by = kNoLink;
  }
  std::sort(order.begin(), order.end());
  for (uint32_t link = 0; link < links_.size(); ++link) {
    links_[link].is_full = false;
    links_[link].free = link_terms_[link].capacity;
  }
  for (size_t i = 0; i < order.size();) {
    begin_solve();
    const uint8_t priority = order[i].first;
    for (; i < order.size() && order[i].first == priority; ++i) join(order[i].second);
    full_to_visit_.clear();  // full are those of the priorities before
    sweep(Others::stay);
  }
  changed_.clear();
  for (const auto& [priority, flow] : order) {
    if (flows_[flow].level != before[flow]) changed_.push_back(flow);
  }
  for (uint32_t link = 0; link < links_.size(); ++link) see_whether_busy(link);
  must_solve_everything_ = priorities_ > 1;
}

void MaxMin::see_whether_busy(uint32_t number) {
  LinkRow& link = links_[number];
  const LinkTerms& terms = link_terms_[number];
  const bool is_busy = !terms.crossing.empty() && link.free <= kRounding * terms.capacity;
  if (is_busy != std::exchange(link.is_busy, is_busy)) turned_.push_back(number);
}

void MaxMin::solve() {
  changed_.clear();
  turned_.clear();
  if (is_solved()) return;
  if (must_solve_everything_) {
    solve_everything();
  } else {
    solve_changes();
  }
  for (const uint32_t link : dirty_links_) links_[link].is_dirty = false;
  dirty_links_.clear();
  joining_.clear();
}

}  // namespace banyan
