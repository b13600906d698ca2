// MaxMin: weighted max-min fair levels of flows on links, kept right while flows come and go.
//
// Notation. Flow f uses link l with u(f,l) bytes per second for each unit of its level; its rate is weight * level.
// Link l has capacity C(l). Every flow has one *bottleneck*: a link that it crosses, that is full, and on which no flow
// has a higher level. So levels belong to links: a flow has the level of its bottleneck. A cap on a flow's rate is a
// link of its own, made for it here.
//
// Water-filling (Bertsekas and Gallager, Data Networks, section 6.5.2): let the levels of all flows rise together;
// whenever a link fills, it becomes the bottleneck of all flows that still rise on it. A sweep over links by the level
// at which they fill takes each link once. The body refers to the claims below by their numbers.
//
// (1) Sums instead of flows. The bottleneck of a flow hardly changes from one event to the next. So each bottleneck b
// keeps, for every link l that its flows cross, the sum of their uses there: its *share* of l. As b fills at level v in
// a sweep, it takes share * v of every such l, whichever flows these are. Counting shows whether b still has the same
// flows: as many rise on it as it had before if and only if they are the same, since every link that filled earlier in
// the sweep has exactly its own. Only where the counts differ are flows looked at one by one, and change their
// bottleneck. So a sweep costs the number of shares, which for dense traffic is a fraction of its hops.
//
// (2) The order of the sweep. A link may fill at level v as soon as no flow that rises on it crosses a link that would
// fill lower; the rest of the network does not matter. So bottlenecks are queued by the level at which they would fill
// now, which only grows. A link that is no flow's bottleneck is looked at when a flow on it is about to be fixed, and
// goes first if it would fill lower. Most links are never looked at.
//
// (3) Solving again after a change touches only what can change. Let S be the set of bottlenecks that are solved anew;
// the others keep their levels. S begins with the bottlenecks that changed and with the new flows. With a bottleneck
// come all bottlenecks on which it has a share, because what its flows use there may change. A flow outside S then
// crosses no link of S at which its level could rise; but a link may now limit a flow of S to a level below that of a
// flow outside. That is seen when the link fills, and the bottleneck of this flow joins S there and then; bottlenecks
// that filled before, and on which it has a share, rise again with theirs.
//
// (4) The sweep ends. All bottlenecks that rise again are above the link that fills, so the lowest level that is not
// settled grows, and each level is that of one link of a finite number.
//
// Consequence: when a flow of level v ends, nothing below v is looked at. As soon as S is half of all flows, it is
// quicker to solve all flows at once, since their use of each link is known. If that was so lately, all are solved
// without searching for S first.
//
// No tolerance except for rounding: levels are computed by sums and quotients of doubles, whose error of one part in
// 10^15 an event does not add up, since a link's free capacity is computed afresh when all its flows are solved, or
// after kRefresh solves. Links whose levels differ by less than one part in 10^14 may fill in any order.
//
// One thread.
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

  // Makes all levels right. The four functions below tell what changed.
  void solve();
  bool is_solved() const { return pending_.links.empty() && pending_.flows.empty(); }  // nothing changed since solve()
  // Until the next call. Flows that have another bottleneck than before, or their first one.
  struct Moved {
    uint32_t flow;
    uint32_t from;  // kNoLink: the flow is new
  };
  std::span<const Moved> moved() const { return outcome_.moved; }
  // Bottlenecks whose level changed, caps among them; now and then one twice.
  std::span<const uint32_t> changed() const { return outcome_.changed; }
  // Links, and caps, of which another amount may be used; and those links that became busy, or ceased to be.
  std::span<const uint32_t> touched() const { return outcome_.touched; }
  std::span<const uint32_t> turned() const { return outcome_.turned; }

  // Results of a solved network.
  uint32_t bottleneck(uint32_t flow) const { return bottleneck_of_[flow]; }  // may be at or above link_count(): a cap
  double level(uint32_t bottleneck) const { return links_[bottleneck].level; }
  double rate(uint32_t flow) const { return links_[bottleneck_of_[flow]].level * flows_[flow].weight; }
  // Nothing is left of it, and some flow crosses it.
  bool is_busy(uint32_t link) const { return links_[link].is_busy; }
  double capacity(uint32_t link) const { return links_[link].capacity; }
  double used(uint32_t link) const { return links_[link].capacity - links_[link].free; }
  size_t link_count() const { return link_count_; }
  size_t bottleneck_count() const { return links_.size(); }  // links and caps, more than any bottleneck's number

  struct Crossing {
    uint32_t flow;
    uint32_t hop;  // of this flow, in the pool
  };
  std::span<const Crossing> crossing(uint32_t link) const { return link_flows_[link].crossing; }
  struct Hop {
    double use;  // u(f,l): bytes per second on the link for a unit of level
    uint32_t link;
    uint32_t place;  // in the link's crossing
    uint32_t share;  // in the shares of its flow's bottleneck
  };
  std::span<const Hop> hops(uint32_t flow) const;

 private:
  class Solve;  // lives for one solve(): S and the sweep

  static constexpr uint32_t kFewShares = 16;  // not worth merging

  struct FlowRow {
    double weight = 1;
    uint32_t first_hop = 0, hop_count = 0;  // the hop over its cap, if it has one, is the last
    uint32_t cap_link = kNoLink;
    uint32_t joined = 0;  // the solve that it joined as a new one
    bool is_present = false;
  };
  // The numbers of a link that every event reads in random order, in one cache line.
  struct alignas(64) LinkRow {
    double free = 0;  // capacity not used by the levels as they are, those of S not counted while it is solved
    double capacity = 0;
    double demand = 0;      // use per level of the flows of S that still rise; zero between solves
    double level = 0;       // when it is a bottleneck
    uint32_t rising = 0;    // flows of S that still rise; zero between solves
    uint32_t joined = 0;    // flows of S
    uint32_t crossing = 0;  // all flows
    uint32_t held = 0;      // flows whose bottleneck it is
    uint32_t touched = 0;   // the last solve that looked, or is to look, at it
    uint32_t member = 0;    // ... for which it was, with its flows, in S
    uint32_t filled = 0;    // ... in which it filled
    bool is_busy = false;
    uint16_t solves = 0;  // since `free` was computed from nothing
  };
  // A bottleneck's share of a link: how much its flows use there for a unit of level, and how many flows they are.
  // Sometimes there are two shares of one link.
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
    uint32_t most_shares = 0;  // beyond which they are merged
  };

  uint32_t allot_hops(uint32_t count);
  uint32_t allot_cap(double capacity);
  void mark_changed(uint32_t link);
  std::span<Hop> all_hops(uint32_t flow) {  // that over its cap included
    return std::span(hops_).subspan(flows_[flow].first_hop, flows_[flow].hop_count);
  }
  void set_bottleneck(uint32_t flow, uint32_t link);
  void clear_bottleneck(uint32_t flow);
  void merge_shares(uint32_t link);

  size_t link_count_;
  std::vector<LinkRow> links_;  // and caps
  std::vector<LinkFlows> link_flows_;
  std::vector<uint32_t> free_caps_;
  std::vector<FlowRow> flows_;
  uint32_t present_ = 0;                 // flows
  std::vector<uint32_t> bottleneck_of_;  // by flow; kNoLink for those that are new
  std::vector<Hop> hops_;
  std::vector<std::vector<uint32_t>> free_hops_;  // first hops of unused runs, by length

  uint32_t solves_ = 0;  // begun; numbers them
  struct Pending {       // since the last solve
    std::vector<uint32_t> links, flows;
  } pending_;
  struct Outcome {  // of the last solve
    std::vector<uint32_t> touched, changed, turned;
    std::vector<Moved> moved;
  } outcome_;
  struct History {
    uint32_t large = 0;   // of the last searches for S, how often it became half of all flows
    uint32_t unseen = 0;  // solves of all flows since the last search
  } history_;
  // Kept for their memory alone: they are empty between solves.
  struct Scratch {
    LevelQueue queue;
    std::vector<uint32_t> to_join;           // bottlenecks
    std::vector<std::vector<Share>> shares;  // of former bottlenecks; used again while they are in a cache
    std::vector<uint32_t> share_of;          // by link: place + 1 while shares are merged, else 0
  } scratch_;
};

}  // namespace banyan::predict
