// MaxMin: weighted max-min fair levels of flows on links, kept right while flows come and go.
//
// Notation. Flow f uses link l with u(f,l) bytes per second for each unit of its level; its rate is weight * level.
// Link l has capacity C(l). Every flow is *held back* by one link that it crosses, its *holder*: this link is full, and
// no flow on it has a higher level. So levels belong to links: a flow has the level of its holder. A cap on a flow's
// rate is a link of its own, made for it here.
//
// Water-filling: let the levels of all flows rise together; whenever a link fills, it holds back whoever still rises on
// it. Sweeping over links by the level at which they fill takes each link once.
//
// Sums instead of flows. Who is held back by whom hardly changes from one event to the next. So each holder h keeps,
// for every link l that its flows cross, the sum of their uses there: its *share* of l. When h fills at level v in a
// sweep, it takes share * v of every such l, whichever flows these are. Whether h still holds back the same flows is
// seen by counting: as many rise on it as it held before if and only if they are the same, since every link that filled
// earlier in the sweep holds exactly its own. Only where the counts differ flows are looked at one by one, and change
// their holder. So a sweep costs the number of shares, which for dense traffic is a fraction of its hops.
//
// Whose turn it is. A link may fill at level v as soon as no flow that rises on it crosses a link that would fill
// lower: what else there is in the network is no matter. So holders are queued by the level at which they would fill
// now, which only grows; a link that holds nobody is looked at when a flow on it is about to be fixed, and goes first
// if it would fill lower. Most links never are.
//
// Solving again after a change touches what can change. Let S be the holders that are solved anew; the others keep
// their levels. S begins with the holders that changed, and with whoever is new. With a holder come all holders on
// which it has a share, because what its flows use there may change. A flow outside S then crosses no link of S at
// which its level could rise; but a link may now hold a flow of S back at a level below that of a flow outside. That is
// seen when the link fills, and this flow's holder joins S there and then; holders that filled before, and on which it
// has a share, rise again with theirs. All that rises again is above the link that fills, so it comes to an end.
//
// Consequence: when a flow of level v ends, nothing below v is looked at. When S becomes half of all flows, it is
// quicker to take all at once, since what they use of each link is known; and where that was so lately, it is done
// without looking first.
//
// No tolerance but for rounding: levels are computed by sums and quotients of doubles, whose error of one part in 10^15
// an event does not add up, since a link's free capacity is computed afresh when all its flows are solved, or after
// kRefresh solves. Links whose levels differ by less than one part in 10^14 may fill in any order.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/predict/fluid/level_queue.h"

namespace banyan::predict {

class MaxMin {
 public:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  static constexpr uint32_t kNoLink = UINT32_MAX;

  explicit MaxMin(std::vector<double> capacities);

  struct Terms {
    std::span<const FluidHop> hops;
    double weight = 1;
    double cap = kUnlimited;  // of the rate
    uint32_t multiplicity = 1;
  };
  // `flow` is a slot that is free; slots are dense, the solver's arrays are as long as the highest.
  void add(uint32_t flow, const Terms& terms);
  void remove(uint32_t flow);
  void set_capacity(uint32_t link, double capacity);

  // Makes all levels right, and says what is different now.
  void solve();
  bool is_solved() const { return dirty_links_.empty() && joining_.empty(); }  // nothing changed since solve()
  // Until the next call. Flows that have another holder than before, or their first one.
  struct Moved {
    uint32_t flow;
    uint32_t from;  // kNoLink: the flow is new
  };
  std::span<const Moved> moved() const { return moved_; }
  // Holders whose level changed, caps among them; now and then one twice.
  std::span<const uint32_t> changed() const { return changed_; }
  // Links, and caps, of which another amount may be used; and those links that became busy, or ceased to be.
  std::span<const uint32_t> touched() const { return touched_; }
  std::span<const uint32_t> turned() const { return turned_; }

  // Of a solved network.
  uint32_t holder(uint32_t flow) const { return holder_of_[flow]; }  // may be at or above link_count(): a cap
  double level(uint32_t holder) const { return links_[holder].level; }
  double rate(uint32_t flow) const { return links_[holder_of_[flow]].level * flows_[flow].weight; }
  // Nothing is left of it, and somebody has it.
  bool is_busy(uint32_t link) const { return links_[link].is_busy; }
  double capacity(uint32_t link) const { return links_[link].capacity; }
  double used(uint32_t link) const { return links_[link].capacity - links_[link].free; }
  size_t link_count() const { return link_count_; }
  size_t holder_count() const { return links_.size(); }  // links and caps, more than any holder's number

  struct Crossing {
    uint32_t flow;
    uint32_t hop;  // of this flow, in the pool
  };
  std::span<const Crossing> crossing(uint32_t link) const { return link_flows_[link].crossing; }
  struct Hop {
    double use;  // bytes per second on the link for a unit of level
    uint32_t link;
    uint32_t place;  // in the link's crossing
    uint32_t share;  // in the holder's shares
  };
  std::span<const Hop> hops(uint32_t flow) const;

 private:
  static constexpr uint16_t kRefresh = 1000;
  static constexpr double kRounding = 1e-9;     // of capacity, that a busy link may seem to have left
  static constexpr double kCancelled = 1e-9;    // of all use, below which what is left of a sum may be its rounding
  static constexpr double kAsGood = 1 - 1e-14;  // levels that differ by less are the same
  static constexpr uint64_t kMostTries = 1000;  // of a link, before it is our own mistake
  static constexpr uint32_t kFewShares = 16;    // not worth tidying
  static constexpr uint32_t kLately = 16, kMostUnseen = 8;

  struct FlowRow {
    double weight = 1;
    uint32_t first_hop = 0, hop_count = 0;  // the hop over its cap, if it has one, is the last
    uint32_t cap_link = kNoLink;
    uint32_t joined = 0;  // the solve that it joined as a new one
    bool is_present = false;
  };
  // What is read at random for every event, in one cache line a link.
  struct alignas(64) LinkRow {
    double free = 0;  // capacity not used by the levels as they are, those of S not counted while it is solved
    double capacity = 0;
    double demand = 0;      // use per level of the flows of S that still rise; zero between solves
    double level = 0;       // when it holds flows back
    uint32_t rising = 0;    // flows of S that still rise; zero between solves
    uint32_t joined = 0;    // flows of S
    uint32_t crossing = 0;  // all flows
    uint32_t held = 0;      // flows that it holds back
    uint32_t touched = 0;   // the last solve that looked, or is to look, at it
    uint32_t member = 0;    // ... for which it was, with its flows, in S
    uint32_t filled = 0;    // ... in which it filled
    bool is_busy = false;
    uint16_t solves = 0;  // since `free` was computed from nothing
  };
  // Of a holder: what its flows use of a link for a unit of level, and how many there are. Now and then two for a link.
  struct Share {
    double use = 0;
    uint32_t link = 0;
    uint32_t flows = 0;
  };
  struct alignas(64) LinkFlows {
    std::vector<Crossing> crossing = {};
    std::vector<Share> shares = {};
    double total_use = 0;      // of all flows on it
    uint32_t dead_shares = 0;  // of no flow
    uint32_t most_shares = 0;  // beyond which they are tidied
  };

  bool is_member(uint32_t holder) const { return all_joined_ || links_[holder].member == solving_; }
  bool is_rising(uint32_t holder) const {
    return holder == kNoLink || (is_member(holder) && links_[holder].filled != solving_);
  }
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
  // By more than its rounding, else two links would wait for each other.
  static bool is_lower(const LinkRow& row, double level) {
    return row.rising > 0 && (row.free > 0 ? row.free : 0) < level * kAsGood * row.demand;
  }
  uint32_t allot_hops(uint32_t count);
  uint32_t allot_cap(double capacity);
  void mark_dirty(uint32_t link);
  LinkRow& touch(uint32_t link);
  void join_new(uint32_t flow);
  void join_holder(uint32_t holder);
  void join_late(const Share& share, double level, bool is_again);
  void join_whoever_is_affected();
  void queue_all_on(uint32_t link);
  void join_all();
  // Whether there are links that fill below `level` on the ways of flows that rise on a link that is about to fill
  // there; they are queued.
  bool queue_lower(uint32_t link, double level);
  bool queue_if_lower(uint32_t link, double level);
  // Whether there are holders above `level`, outside S or filled, of flows on a link that is about to fill there; they
  // join, or rise again.
  bool join_higher(uint32_t link, double level);
  void refresh(uint32_t link);
  void sum_demand(uint32_t link);
  void requeue(uint32_t link);
  void find_who_changes();
  void sweep();
  void hold_whoever_rises(uint32_t link);
  void let_go(uint32_t flow);
  void hold(uint32_t flow, uint32_t link);
  void tidy_shares(uint32_t link);
  // At `level`, unless others are to fill before it, which are queued then.
  bool fill(uint32_t link, double level);
  void see_whether_busy(uint32_t link);
  double level_now(uint32_t link) const {
    const LinkRow& row = links_[link];
    if (row.rising == 0) return kUnlimited;
    return row.free > 0 && row.demand > 0 ? row.free / row.demand : 0;
  }

  size_t link_count_;
  std::vector<LinkRow> links_;  // and caps
  std::vector<LinkFlows> link_flows_;
  std::vector<uint32_t> free_caps_;
  std::vector<FlowRow> flows_;
  std::vector<uint32_t> holder_of_;  // by flow; kNoLink for those that are new
  std::vector<Hop> hops_;
  std::vector<std::vector<uint32_t>> free_hops_;  // first hops of unused runs, by length

  std::vector<std::vector<Share>> spare_shares_;  // empty, of those who held; used again while they are in a cache

  LevelQueue queue_;
  uint32_t solving_ = 0;
  bool is_sweeping_ = false, all_joined_ = false;
  double highest_ = 0;         // level of all that filled in this solve
  uint32_t large_lately_ = 0;  // of the last kLately times that S was looked for, how often it became half of all flows
  uint32_t unseen_ = 0;        // solves since it was looked for
  uint32_t present_ = 0, joined_ = 0;            // flows; the last in this solve
  std::vector<uint32_t> dirty_links_, joining_;  // since the last solve
  std::vector<uint32_t> to_join_;                // holders
  uint32_t seen_ = 0;                            // of touched_, whether they hold anybody
  std::vector<uint32_t> touched_, changed_, turned_;
  std::vector<Moved> moved_;
  std::vector<uint32_t> share_of_;  // by link: place + 1 while shares are tidied, else 0
};

}  // namespace banyan::predict
