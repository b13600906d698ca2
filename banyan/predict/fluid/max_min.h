// MaxMin: weighted max-min fair levels of flows on links, kept right while flows come and go.
//
// Notation. Flow f uses link l with u(f,l) bytes per second for each unit of its level v(f); its rate is weight * v(f).
// Link l has capacity C(l). A link at which a flow is held back is *full* and has a level s(l), that of these flows,
// which is the highest on it. All rates are right when every flow is at its cap or held back by some link.
//
// Water-filling: let the levels of all flows rise together; whenever a link fills, its flows stay there. Sweeping over
// links by the level at which they fill takes each link and each hop once.
//
// Solving again after a change touches what can change. Let S be the flows that are solved anew, all others keep their
// levels. S begins with the flows held back by links that changed, and with whoever is new. With a flow come all flows
// held back by any full link that it crosses, because its share there may be theirs. A flow g outside S then crosses
// no link at which its bottleneck's use changes, so it stays right; with one exception: a link may now hold a flow of S
// back at a level below that of a g on it. That is seen when the link fills in the sweep, and g joins S there and
// then: its level, and those of all who come with it, are above the sweep, so nothing done before is undone.
//
// Consequence: when a flow of level v ends, nothing below v is looked at. When S becomes half of all flows, it is
// quicker to take all at once, since what they use of each link is known; and where that was so lately, it is done
// without looking first.
//
// Not a tolerance anywhere: levels are computed by sums and quotients of doubles, whose error of one part in 10^15 an
// event does not add up, since a link's free capacity is computed afresh when all its flows are solved, or after
// kRefresh solves.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/predict/fluid/level_queue.h"

namespace banyan {

class MaxMin {
 public:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

  explicit MaxMin(std::vector<double> capacities);

  struct Terms {
    std::span<const FluidHop> hops;
    double weight = 1;
    double cap = kUnlimited;  // of the rate
    uint32_t multiplicity = 1;
    uint8_t priority = 0;
  };
  // `flow` is a slot that is free; slots are dense, the solver's arrays are as long as the highest.
  void add(uint32_t flow, const Terms& terms);
  void remove(uint32_t flow);
  void set_capacity(uint32_t link, double capacity);

  // Makes all levels right. The flows whose level may have changed are in changed() until the next call; those that
  // were removed are not among them. Each link that became busy, or ceased to be, is in turned().
  void solve();
  bool is_solved() const { return dirty_links_.empty() && joining_.empty(); }  // nothing changed since solve()
  std::span<const uint32_t> changed() const { return changed_; }
  std::span<const uint32_t> turned() const { return turned_; }

  double level(uint32_t flow) const { return flows_[flow].level; }
  double rate(uint32_t flow) const { return flows_[flow].level * flow_terms_[flow].weight; }
  // Nothing is left of it, and somebody has it.
  bool is_busy(uint32_t link) const { return links_[link].is_busy; }
  double capacity(uint32_t link) const { return link_terms_[link].capacity; }
  double used(uint32_t link) const { return link_terms_[link].capacity - links_[link].free; }
  size_t link_count() const { return links_.size(); }

  struct Crossing {
    uint32_t flow;
    uint32_t hop;  // of this flow, in the pool
  };
  std::span<const Crossing> crossing(uint32_t link) const { return link_terms_[link].crossing; }
  std::span<const FluidHop> hops(uint32_t flow) const;

 private:
  static constexpr uint32_t kNoLink = UINT32_MAX;
  static constexpr uint32_t kRefresh = 1000;
  static constexpr double kRounding = 1e-9;  // of capacity, that a busy link may seem to have left

  struct Hop {
    uint32_t link;
    uint32_t place;  // in the link's crossing
    double use;      // bytes per second on the link for a unit of level
  };
  // What a sweep touches, apart from what it does not: thousands of these are read at random for every event.
  struct FlowRow {
    double level = 0;
    double cap = kUnlimited;  // of the level
    uint32_t first_hop = 0, hop_count = 0;
    uint32_t held_by = kNoLink;
    uint32_t solving = 0;  // the solve in which it joined S; with kFixed when its level is known
  };
  struct FlowTerms {
    double weight = 1;
    uint8_t priority = 0;
    bool is_present = false;
  };
  struct LinkRow {
    double free = 0;       // capacity not used by the levels as they are, those of S not counted while it is solved
    double demand = 0;     // use per level of the flows of S that still rise
    uint32_t solving = 0;  // the solve that touched it
    uint32_t joined = 0;   // flows of S on it
    uint32_t rising = 0;   // those of them whose levels are not known yet
    bool is_full = false;  // holds a flow back
    bool is_busy = false;
    bool is_filled = false;  // in this solve
    bool is_dirty = false;   // since the last solve
  };
  struct LinkTerms {
    double capacity = 0;
    double total_use = 0;  // of all flows on it
    uint32_t solves = 0;   // since `free` was computed from nothing
    std::vector<Crossing> crossing;
  };
  static constexpr uint32_t kLately = 16, kMostUnseen = 8;
  static constexpr size_t kAhead = 6;  // flows whose hops are fetched while others are worked on
  static constexpr uint32_t kFixed = uint32_t{1} << 31;

  bool is_rising(const FlowRow& row) const {
    return all_joined_ ? row.solving != (solving_ | kFixed) : row.solving == solving_;
  }
  bool has_joined(const FlowRow& row) const { return all_joined_ || (row.solving & ~kFixed) == solving_; }
  uint32_t allot_hops(uint32_t count);
  void mark_dirty(uint32_t link);
  LinkRow& touch(uint32_t link);
  void join(uint32_t flow);
  void join_held_by(uint32_t link);
  void join_whoever_is_affected();
  void join_all();
  // Whether there are flows outside S above `level` on a link that is about to fill there; they join.
  bool join_above(uint32_t link, double level);
  void refresh(uint32_t link);
  void requeue(uint32_t link);
  void begin_solve();
  enum class Others { join, stay };
  void sweep(Others others);
  void fill(uint32_t link, double level);
  void fix_caps_up_to(double level);
  void fix(uint32_t flow, double level, uint32_t by);
  void solve_changes();
  void solve_everything();
  void see_whether_busy(uint32_t link);
  static double level_of(const LinkRow& link) { return (link.free > 0 ? link.free : 0) / link.demand; }

  std::vector<LinkRow> links_;
  std::vector<LinkTerms> link_terms_;
  std::vector<FlowRow> flows_;
  std::vector<FlowTerms> flow_terms_;
  std::vector<Hop> hops_;
  std::vector<FluidHop> given_hops_;              // parallel to hops_
  std::vector<std::vector<uint32_t>> free_hops_;  // first hops of unused runs, by length
  std::vector<uint32_t> flows_by_priority_ = std::vector<uint32_t>(256, 0);
  uint32_t priorities_ = 0;  // in use
  bool must_solve_everything_ = false;

  LevelQueue queue_;
  uint32_t solving_ = 0;
  bool is_sweeping_ = false, all_joined_ = false;
  uint32_t large_lately_ = 0;  // of the last kLately times that S was looked for, how often it became half of all flows
  uint32_t unseen_ = 0;        // solves since it was looked for
  uint32_t present_ = 0, capped_ = 0, joined_ = 0;  // flows; the last in this solve
  std::vector<uint32_t> dirty_links_, joining_;     // since the last solve
  std::vector<uint32_t> touched_, full_to_visit_;   // links of S
  std::vector<uint32_t> changed_, turned_;          // by the last solve
  std::vector<uint32_t> filling_;                   // flows that a link holds back
  std::vector<std::pair<double, uint32_t>> caps_;   // a heap of flows of S by cap
};

}  // namespace banyan
