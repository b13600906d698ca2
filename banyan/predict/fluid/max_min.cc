#include "banyan/predict/fluid/max_min.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

constexpr uint16_t kRefresh = 1000;
constexpr double kRounding = 1e-9;     // of capacity, that a busy link may seem to have left
constexpr double kCancelled = 1e-9;    // of all use, below which what is left of a sum may be its rounding
constexpr double kAsGood = 1 - 1e-14;  // levels that differ by less are the same
constexpr uint64_t kMostTries = 1000;  // of a link, before it is our own mistake
// S is not searched for when it was large in most of the last kRemembered searches, but for every kMostUnseen-th time.
constexpr uint32_t kRemembered = 16, kMostUnseen = 8;

}  // namespace

// ---- Flows and links ----

MaxMin::MaxMin(std::vector<double> capacities)
    : link_count_(capacities.size()),
      links_(link_count_),
      link_flows_(link_count_),
      scratch_{.queue = LevelQueue(link_count_), .to_join = {}, .shares = {}, .share_of = {}} {
  for (size_t link = 0; link < capacities.size(); ++link) {
    CHECK(capacities[link] >= 0) << "link " << link << " has capacity " << capacities[link];
    links_[link].free = links_[link].capacity = capacities[link];
  }
}

uint32_t MaxMin::allot_hops(uint32_t count) {
  // A run of hops of this length that another flow has left is used again.
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
    scratch_.queue.resize(links_.size());
  }
  const uint32_t link = free_caps_.back();
  free_caps_.pop_back();
  links_[link].free = links_[link].capacity = capacity;
  return link;
}

void MaxMin::mark_changed(uint32_t link) {
  if (std::exchange(links_[link].touched, solves_ + 1) != solves_ + 1) pending_.links.push_back(link);
}

void MaxMin::add(uint32_t flow, const Terms& terms) {
  if (flow >= flows_.size()) {
    flows_.resize(flow + 1);
    bottleneck_of_.resize(flow + 1, kNoLink);
  }
  FlowRow& row = flows_[flow];
  CHECK(!row.is_present) << "flow " << flow;
  CHECK(terms.weight > 0 && terms.multiplicity > 0) << "weight " << terms.weight << " x " << terms.multiplicity;
  const bool is_capped = terms.cap < kUnlimited;
  CHECK(!terms.hops.empty() || is_capped) << "flow " << flow << " has no rate";
  // A cap is a link of its own behind the others, so that the solver knows links alone.
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
  pending_.flows.push_back(flow);
}

void MaxMin::remove(uint32_t flow) {
  FlowRow& row = flows_[flow];
  CHECK(row.is_present) << "flow " << flow;
  // The flow gives back what it uses at its level; a flow that was never solved uses nothing.
  const double level = bottleneck_of_[flow] == kNoLink ? 0 : links_[bottleneck_of_[flow]].level;
  for (const Hop& hop : all_hops(flow)) {
    LinkRow& link = links_[hop.link];
    LinkFlows& on = link_flows_[hop.link];
    on.crossing[hop.place] = on.crossing.back();
    hops_[on.crossing[hop.place].hop].place = hop.place;
    on.crossing.pop_back();
    on.total_use -= hop.use;
    link.free += hop.use * level;
    // A link without flows has no rounding left over.
    if (--link.crossing == 0) {
      link.free = link.capacity;
      on.total_use = 0;
    }
    mark_changed(hop.link);
  }
  clear_bottleneck(flow);
  if (row.cap_link != kNoLink) free_caps_.push_back(row.cap_link);
  if (row.hop_count >= free_hops_.size()) free_hops_.resize(row.hop_count + 1);
  free_hops_[row.hop_count].push_back(row.first_hop);
  row.is_present = false;
  --present_;
}

void MaxMin::set_capacity(uint32_t link, double capacity) {
  CHECK(capacity >= 0) << "link " << link << " gets capacity " << capacity;
  // `free` may become negative: then flows that cross the link join S (join_affected).
  links_[link].free += capacity - links_[link].capacity;
  links_[link].capacity = capacity;
  mark_changed(link);
}

std::span<const MaxMin::Hop> MaxMin::hops(uint32_t flow) const {
  const FlowRow& row = flows_[flow];
  return std::span(hops_).subspan(row.first_hop, row.hop_count - (row.cap_link == kNoLink ? 0 : 1));
}

// ---- Bottlenecks and their shares ----

// The flow leaves the shares of its bottleneck, if it has one. A share that has lost its last flow stays as a dead one,
// since the hops of other flows know shares by their place.
void MaxMin::clear_bottleneck(uint32_t flow) {
  const uint32_t number = std::exchange(bottleneck_of_[flow], kNoLink);
  if (number == kNoLink) return;
  LinkFlows& bottleneck = link_flows_[number];
  if (--links_[number].held == 0) {
    bottleneck.shares.clear();
    scratch_.shares.push_back(std::move(bottleneck.shares));
    bottleneck.dead_shares = 0;
    return;
  }
  for (const Hop& hop : all_hops(flow)) {
    Share& share = bottleneck.shares[hop.share];
    share.use -= hop.use;
    if (--share.flows > 0) continue;
    share.use = 0;
    ++bottleneck.dead_shares;
  }
}

// The flow brings shares of its own, one for each hop. merge_shares() makes one of those of one link, later.
void MaxMin::set_bottleneck(uint32_t flow, uint32_t number) {
  bottleneck_of_[flow] = number;
  LinkFlows& bottleneck = link_flows_[number];
  if (links_[number].held++ == 0) {
    bottleneck.most_shares = kFewShares;
    if (!scratch_.shares.empty()) {
      bottleneck.shares = std::move(scratch_.shares.back());
      scratch_.shares.pop_back();
    }
  }
  for (Hop& hop : all_hops(flow)) {
    hop.share = static_cast<uint32_t>(bottleneck.shares.size());
    bottleneck.shares.push_back({hop.use, hop.link, 1});
  }
}

// Makes one share for each link, its sum computed afresh.
void MaxMin::merge_shares(uint32_t number) {
  LinkFlows& bottleneck = link_flows_[number];
  std::vector<uint32_t>& share_of = scratch_.share_of;
  share_of.resize(links_.size(), 0);
  bottleneck.shares.clear();
  bottleneck.dead_shares = 0;
  for (const Crossing& crossing : bottleneck.crossing) {
    if (bottleneck_of_[crossing.flow] != number) continue;
    for (Hop& hop : all_hops(crossing.flow)) {
      uint32_t& place = share_of[hop.link];
      if (place == 0) {
        bottleneck.shares.push_back({0, hop.link, 0});
        place = static_cast<uint32_t>(bottleneck.shares.size());
      }
      hop.share = place - 1;
      bottleneck.shares[hop.share].use += hop.use;
      ++bottleneck.shares[hop.share].flows;
    }
  }
  for (const Share& share : bottleneck.shares) share_of[share.link] = 0;
  // The next time is far enough away that it pays to look at all flows on the link.
  bottleneck.most_shares = static_cast<uint32_t>(kFewShares + bottleneck.shares.size() * 5 / 4);
}

// ---- One solve ----

// First S is collected, then a sweep fills the links of S by ascending level. While it sweeps, bottlenecks may still
// join S, and those that have filled may rise again: (3) of the header.
//
// Between its steps, for every link that was touched: `free` is the capacity that is left by the flows that have their
// level, `demand` the use per level of the flows that rise, `rising` their number. Each step keeps all three right, by
// taking a share when its bottleneck fills and giving it back when the bottleneck rises.
class MaxMin::Solve {
 public:
  explicit Solve(MaxMin& network)
      : network_(network),
        links_(network.links_),
        bottleneck_of_(network.bottleneck_of_),
        touched_(network.outcome_.touched),
        to_join_(network.scratch_.to_join),
        queue_(network.scratch_.queue),
        number_(network.solves_) {}

  void join_all();
  // Whether S became all flows.
  bool collect_members();
  void sweep();

 private:
  bool is_member(uint32_t bottleneck) const { return all_joined_ || links_[bottleneck].member == number_; }
  // Of a flow with this bottleneck: whether its level still rises in this sweep.
  bool is_rising(uint32_t bottleneck) const {
    return bottleneck == kNoLink || (is_member(bottleneck) && links_[bottleneck].filled != number_);
  }
  std::span<const Crossing> crossing(uint32_t link) const { return network_.link_flows_[link].crossing; }
  std::span<const Share> shares(uint32_t bottleneck) const { return network_.link_flows_[bottleneck].shares; }

  // The flows of a share are fixed at `level`, or rise again from there.
  static void take(LinkRow& row, const Share& share, double level) {
    row.free -= share.use * level;
    row.demand -= share.use;
    row.rising -= share.flows;
  }
  static void give_back(LinkRow& row, const Share& share, double level) {
    row.free += share.use * level;
    row.demand += share.use;
    row.rising += share.flows;
  }
  // Whether the link fills below `level`, by more than rounding: without this margin two links of one level would wait
  // for each other.
  static bool is_lower(const LinkRow& row, double level) {
    return row.rising > 0 && (row.free > 0 ? row.free : 0) < level * kAsGood * row.demand;
  }
  // The level at which the link would fill now.
  double level_now(uint32_t link) const {
    const LinkRow& row = links_[link];
    if (row.rising == 0) return kUnlimited;
    return row.free > 0 && row.demand > 0 ? row.free / row.demand : 0;
  }

  LinkRow& touch(uint32_t link);
  void join_new(uint32_t flow);
  void join(uint32_t bottleneck);
  void join_in_sweep(const Share& share, double level, bool is_again);
  void join_affected();
  void join_all_on(uint32_t link);
  bool queue_lower(uint32_t link, double level);
  bool queue_if_lower(uint32_t link, double level);
  bool join_higher(uint32_t link, double level);
  void refresh(uint32_t link);
  void sum_demand(uint32_t link);
  void requeue(uint32_t link) {
    if (links_[link].rising != 0) queue_.push(link, level_now(link));
  }
  void take_rising_flows(uint32_t link);
  bool fill(uint32_t link, double level);
  bool take_shares(uint32_t link, double level, bool are_same);

  MaxMin& network_;
  std::vector<LinkRow>& links_;
  std::vector<uint32_t>& bottleneck_of_;
  std::vector<uint32_t>& touched_;
  std::vector<uint32_t>& to_join_;
  LevelQueue& queue_;
  const uint32_t number_;
  bool is_sweeping_ = false, all_joined_ = false;
  uint32_t joined_ = 0;  // flows of S
  uint32_t seen_ = 0;    // of touched_: looked at for being bottlenecks
  double highest_ = 0;   // level of all that filled
};

void MaxMin::solve() {
  outcome_.moved.clear();
  outcome_.changed.clear();
  outcome_.turned.clear();
  outcome_.touched.clear();
  if (is_solved()) return;
  outcome_.touched.swap(pending_.links);
  CHECK(++solves_ != 0) << "more solves than can be counted";
  Solve solve(*this);
  // A search that finds half of all flows is in vain. If that was so lately, all are solved without it.
  if (history_.large > kRemembered / 2 && history_.unseen < kMostUnseen) {
    ++history_.unseen;
    solve.join_all();
  } else {
    history_.unseen = 0;
    const bool all = solve.collect_members();
    if (all && history_.large < kRemembered) ++history_.large;
    if (!all && history_.large > 0) --history_.large;
  }
  solve.sweep();
  // Links that were touched tell whether they are busy now, and are ready for the next solve.
  for (const uint32_t number : outcome_.touched) {
    LinkRow& link = links_[number];
    link.demand = 0;
    if (number >= link_count_) continue;
    const bool is_busy = link.crossing > 0 && link.free <= kRounding * link.capacity;
    if (is_busy != std::exchange(link.is_busy, is_busy)) outcome_.turned.push_back(number);
  }
  pending_.flows.clear();
}

MaxMin::LinkRow& MaxMin::Solve::touch(uint32_t number) {
  LinkRow& row = links_[number];
  if (std::exchange(row.touched, number_) != number_) touched_.push_back(number);
  return row;
}

// A new flow rises on all its links. It has no bottleneck yet, so no share tells of it.
void MaxMin::Solve::join_new(uint32_t flow) {
  FlowRow& row = network_.flows_[flow];
  if (!row.is_present || std::exchange(row.joined, number_) == number_) return;
  ++joined_;
  for (const Hop& hop : network_.all_hops(flow)) {
    LinkRow& on = touch(hop.link);
    on.demand += hop.use;
    ++on.rising;
  }
}

// A bottleneck comes into S, or has filled in this sweep and is to fill again: its flows rise.
void MaxMin::Solve::join(uint32_t number) {
  LinkRow& bottleneck = links_[number];
  const bool is_again = is_member(number);
  if (is_again && bottleneck.filled != number_) return;
  bottleneck.member = number_;
  bottleneck.filled = 0;
  const std::span<const Share> shares = this->shares(number);
  if (is_sweeping_) {
    for (const Share& share : shares) {
      if (share.flows > 0) join_in_sweep(share, bottleneck.level, is_again);
    }
    return;
  }
  joined_ += bottleneck.held;
  // Touches the links of all shares. There is no branch that depends on the link, since half of the time is spent here:
  // a link that was touched before is written behind the end of the list, where the next one overwrites it.
  const size_t before = touched_.size();
  touched_.resize(before + shares.size());
  uint32_t* end = touched_.data() + before;
  LinkRow* const rows = links_.data();
  const uint32_t solving = number_;
  const double level = bottleneck.level;
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

// The share of a bottleneck that joins during the sweep. If the link of the share is a bottleneck itself, it joins as
// well, by (3), and is queued again, since it may fill at a lower level than it is queued for.
void MaxMin::Solve::join_in_sweep(const Share& share, double level, bool is_again) {
  LinkRow& link = links_[share.link];
  if (link.touched != number_) link.joined = 0;
  give_back(touch(share.link), share, level);
  if (!is_again) link.joined += share.flows;
  if (link.held == 0) return;
  if (!is_member(share.link) || link.filled == number_) to_join_.push_back(share.link);
  requeue(share.link);
}

// Closes S under (3): bottlenecks that wait in to_join_ join, and before the sweep also every touched link that is a
// bottleneck. Each joins at most once (in the sweep once for each time that it has filled), so this ends.
void MaxMin::Solve::join_affected() {
  for (;;) {
    if (!is_sweeping_ && joined_ > network_.present_ / 2 && joined_ < network_.present_) return join_all();
    if (!to_join_.empty()) {
      const uint32_t bottleneck = to_join_.back();
      to_join_.pop_back();
      if (links_[bottleneck].held > 0) join(bottleneck);
    } else if (!is_sweeping_ && seen_ < touched_.size()) {
      const uint32_t link = touched_[seen_++];
      if (links_[link].held > 0) join(link);
      if (links_[link].free < 0) join_all_on(link);
    } else {
      return;
    }
  }
}

// The link has become too small for the flows outside S that cross it: their bottlenecks are to join.
void MaxMin::Solve::join_all_on(uint32_t number) {
  for (const Crossing& crossing : crossing(number)) {
    const uint32_t bottleneck = bottleneck_of_[crossing.flow];
    if (bottleneck != kNoLink && !is_member(bottleneck)) to_join_.push_back(bottleneck);
  }
}

// S is everything. What all flows use of a link is known, so no share is looked at.
void MaxMin::Solve::join_all() {
  all_joined_ = true;
  to_join_.clear();
  for (uint32_t number = 0; number < links_.size(); ++number) {
    LinkRow& link = links_[number];
    if (link.crossing == 0) continue;
    touch(number);
    link.demand = network_.link_flows_[number].total_use;
    link.rising = link.crossing;
  }
}

bool MaxMin::Solve::collect_members() {
  // S begins with the new flows and, by the touched links, with the bottlenecks that changed (3).
  for (const uint32_t flow : network_.pending_.flows) join_new(flow);
  join_affected();
  return all_joined_;
}

bool MaxMin::Solve::queue_if_lower(uint32_t number, double level) {
  if (!is_lower(links_[number], level)) return false;
  requeue(number);
  return true;
}

// The test of (2) for a link that is about to fill at `level`: queues all links that would fill lower and that a flow
// rising on this link crosses. Whether there are any. The shares tell of the flows that this link held back before; any
// others that rise on it are looked at one by one.
bool MaxMin::Solve::queue_lower(uint32_t number, double level) {
  bool any = false;
  for (const Share& share : shares(number)) any |= queue_if_lower(share.link, level);
  if (any || links_[number].rising == links_[number].held) return any;
  for (const Crossing& crossing : crossing(number)) {
    const uint32_t bottleneck = bottleneck_of_[crossing.flow];
    if (bottleneck == number || !is_rising(bottleneck)) continue;
    for (const Hop& hop : network_.all_hops(crossing.flow)) any |= queue_if_lower(hop.link, level);
  }
  return any;
}

// The test of (3) for a link that is about to fill at `level`: flows that cross it may have a higher level, from
// outside S or because their bottleneck has filled already. Their bottlenecks join, or rise again. True if there
// are any.
bool MaxMin::Solve::join_higher(uint32_t number, double level) {
  const LinkRow& link = links_[number];
  // While it was a bottleneck no flow on it was above its level.
  const bool may_be_outside = link.joined < link.crossing && (link.held == 0 || level < link.level);
  if (!may_be_outside && level >= highest_) return false;
  for (const Crossing& crossing : crossing(number)) {
    const uint32_t bottleneck = bottleneck_of_[crossing.flow];
    if (!is_rising(bottleneck) && links_[bottleneck].level * kAsGood > level) to_join_.push_back(bottleneck);
  }
  const bool any = !to_join_.empty();
  join_affected();
  return any;
}

// The link becomes the bottleneck of all flows that rise on it.
void MaxMin::Solve::take_rising_flows(uint32_t number) {
  for (const Crossing& crossing : crossing(number)) {
    const uint32_t flow = crossing.flow, from = bottleneck_of_[flow];
    if (from == number || !is_rising(from)) continue;
    network_.clear_bottleneck(flow);
    network_.set_bottleneck(flow, number);
    network_.outcome_.moved.push_back({flow, from});
  }
}

// Fixes the flows of a bottleneck at `level`: their shares of all links are taken. False, and nothing has changed, when
// one of these links is to fill before; it is queued then. `are_same`: nobody looked for such links so far.
bool MaxMin::Solve::take_shares(uint32_t number, double level, bool are_same) {
  const std::span<const Share> shares = this->shares(number);
  // Looked at and taken in one go: that one of them is lower is rare.
  LinkRow* const rows = links_.data();
  bool any_lower = false;
  for (const Share& share : shares) {
    any_lower |= is_lower(rows[share.link], level);
    take(rows[share.link], share, level);
  }
  if (!any_lower || !are_same) return true;
  for (const Share& share : shares) give_back(rows[share.link], share, level);
  if (queue_lower(number, level)) return false;
  for (const Share& share : shares) take(rows[share.link], share, level);
  return true;
}

// Fills the link at `level`. False when other links are to fill before it; they are queued then.
bool MaxMin::Solve::fill(uint32_t number, double level) {
  LinkRow& link = links_[number];
  // (1): as many flows rise as the bottleneck had, so they are the same, and their shares are right as they are.
  const bool are_same = link.rising == link.held;
  if (!are_same && queue_lower(number, level)) return false;
  if (join_higher(number, level)) return false;
  // No link is lower and no flow is higher: this link is the bottleneck of all flows that rise on it.
  if (!are_same) take_rising_flows(number);
  CHECK(link.rising == link.held) << "on link " << number << ' ' << link.rising << " flows rise, " << link.held
                                  << " are held back";
  const LinkFlows& bottleneck = network_.link_flows_[number];
  const bool many_are_dead = bottleneck.dead_shares > bottleneck.shares.size() / 8 + bottleneck.crossing.size() / 8;
  if (bottleneck.shares.size() > bottleneck.most_shares || many_are_dead) network_.merge_shares(number);
  if (!take_shares(number, level, are_same)) return false;
  link.filled = number_;
  highest_ = std::max(highest_, level);
  if (link.level != level) {
    link.level = level;
    network_.outcome_.changed.push_back(number);
  }
  return true;
}

// From the flows themselves, where rounding has eaten the sum.
void MaxMin::Solve::sum_demand(uint32_t number) {
  double& demand = links_[number].demand;
  demand = 0;
  for (const Crossing& crossing : crossing(number)) {
    if (is_rising(bottleneck_of_[crossing.flow])) demand += network_.hops_[crossing.hop].use;
  }
}

// Before the sweep: the free capacity of a link is computed afresh where that is cheap, or was long ago.
void MaxMin::Solve::refresh(uint32_t number) {
  LinkRow& link = links_[number];
  link.joined = link.rising;
  if (link.joined == link.crossing) {
    link.free = link.capacity;
    return;
  }
  if (++link.solves <= kRefresh) return;
  link.solves = 0;
  link.free = link.capacity;
  for (const Crossing& crossing : crossing(number)) {
    const uint32_t bottleneck = bottleneck_of_[crossing.flow];
    if (bottleneck != kNoLink && !is_member(bottleneck))
      link.free -= network_.hops_[crossing.hop].use * links_[bottleneck].level;
  }
}

void MaxMin::Solve::sweep() {
  for (const uint32_t number : touched_) {
    refresh(number);
    if (links_[number].held > 0) requeue(number);
  }
  // A new flow is on no bottleneck's share. One of its links is queued, and queue_lower() finds the others from there.
  for (const uint32_t flow : network_.pending_.flows) {
    if (network_.flows_[flow].is_present) requeue(network_.all_hops(flow).front().link);
  }
  is_sweeping_ = true;
  const auto level_of = [this](uint32_t link) { return level_now(link); };
  // (4) says that this ends; kMostTries is far above what it takes.
  uint64_t tries = 0;
  for (uint32_t number = 0; queue_.pop(&number, level_of);) {
    CHECK(++tries < kMostTries * (links_.size() + 1)) << "link " << number << " at level " << level_now(number);
    if (links_[number].demand < kCancelled * network_.link_flows_[number].total_use) sum_demand(number);
    const double level = level_now(number);
    if (!fill(number, level)) requeue(number);
  }
  queue_.clear();
}

}  // namespace banyan::predict
