// Steward: decides how fast the communicators of all hosts may go, from what their daemons report.
//
// A communicator whose calls go between hosts has one reporter, the daemon of its rank 0. It reports when a call begins
// and ends, every few milliseconds how far the call has come, and now and then that it is still there. Calls that have
// no link in common with calls of others are not limited but by their caps, since nobody gains by it. All others get
// speeds by allocation.h, whose tenants are sharers here (sharer.h): classes, weights, caps; among calls of one class
// and weight, the farther one has come, the more it gets (progress_weight.h), so that training jobs that are alike come
// to communicate in turn. The others of that class and weight get so much less: calls of other weights and classes feel
// nothing.
//
// A call that would take less than `shortest` alone ends before its progress is known. Under the law it would always be
// at its beginning and have less than its tenant's weight. So it gets the constant weight by which it takes as long as
// by the law, where the weights of others are constant: the logarithmic mean of the law's two ends.
//
// Equal jobs that begin at the same moment would stay in step for ever. So, where progress counts, the weights of the
// calls that share links fall by 0.1 % in the order of the names of their communicators: call i of n, counted from 0,
// has 1 - i / (1000 n) of its own.
//
// A communicator counts as active while a call is under way and for `linger` after, as if its next call had just begun:
// so the small gaps between calls do not make everybody's speed jump. One that has not been reported for `expiry` is
// forgotten: its host may be gone. Nothing is kept that reports would not bring back: a steward that takes over knows
// all after the longest pause between reports.
//
// Guarantees, which tests hold against allocate() and by simulation:
// (1) After decide(), what each active communicator was told last is within 1 % of what it should have now. So the
//     calls that share links ask for no more than 1.01 of the capacity of any link.
// (2) What it should have depends on the last report of each communicator, and not on the order in which they came.
// (3) decide() computes only when a speed may have changed.
//
// Pure: the time comes from outside. One thread. report() takes time O(log n), and O(h log h) for a footprint of h
// links; decide() as allocate(), or O(1) where nothing has changed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/service/share/allocation.h"
#include "banyan/service/share/progress_weight.h"

namespace banyan::service {

// The law works on what is reported as one call. Calls that follow each other at once and belong together, such as the
// buckets of a training step, may be reported as one.
struct CallReport {
  std::string communicator;
  uint64_t number = 0;  // of the reports of this communicator; those that are not above the last one are ignored
  std::string sharer;   // as in sharer.h
  double weight = 1;    // of the sharer; where its communicators differ, each has its own part of its own weight
  ShareClass share_class = ShareClass::normal;
  double cap = std::numeric_limits<double>::infinity();  // as in SharedCall
  bool is_under_way = false;                             // a call is
  std::vector<LinkUse> footprint = {};                   // of this call; empty while none is under way: as before
  double done = 0;                                       // part of the call, 0 to 1
};

class Steward {
 public:
  using Time = std::chrono::nanoseconds;  // since any fixed moment; never goes back
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  static constexpr Time kMostTime = std::chrono::hours(24);

  struct Options {
    std::vector<double> capacities;  // by link: bytes per second
    double least = 0.05;             // as in SharedNetwork
    ProgressWeight progress = {};    // at both ends from kLeastAmount to kMostAmount
    Time linger = std::chrono::milliseconds(2);
    Time expiry = std::chrono::seconds(1);
    // The shortest call, in time alone, whose progress counts. Twice the pause between reports is good.
    Time shortest = std::chrono::milliseconds(10);
  };
  // Throws Error{invalid_input} for numbers that allocation.h does not take, and for times above kMostTime.
  explicit Steward(Options options);

  // Throws Error{invalid_input} for a report that makes no sense (a link that there is not, a weight of 0); nothing has
  // changed then.
  void report(const CallReport& report, Time now);
  // The communicator is no more.
  void forget(const std::string& communicator);

  struct Speed {
    std::string communicator;
    double calls_per_second = kNoLimit;  // of calls like the one that is under way
    double rate = kNoLimit;              // the same in bytes per second on the link where such a call has most bytes
  };
  // Speeds that have changed by more than 1 %, in either unit, since they were last told, and those of active
  // communicators that have never been told one. A communicator that becomes active again is told anew when it gets
  // another speed than the last.
  std::vector<Speed> decide(Time now);
  // The next time at which decide() may have something new without a report: a linger or an expiry is over. Nothing:
  // never.
  std::optional<Time> next() const;

  // For operators: all that are known, and what they were told. As of the last report or decision.
  struct Row {
    CallReport report;  // the last one
    Speed speed;
    bool is_active = false;
  };
  std::vector<Row> rows() const;
  // Number of times that decide() has computed speeds.
  uint64_t computations() const { return computations_; }

 private:
  struct Known {
    CallReport last;
    Time reported{0};
    bool lingers = false;  // no call is under way
    Time lingers_until{0};
    Time due{0};          // as in due_
    bool shares = false;  // it is active and shared a link with others in the last computation
    bool is_sent = false;
    Speed sent = {};

    bool is_active() const { return last.is_under_way || lingers; }
  };
  using KnownByName = std::map<std::string, Known, std::less<>>;

  void check(const CallReport& report) const;
  void forget(KnownByName::iterator found);
  void set_due(KnownByName::iterator found);
  void pass(Time now);
  double seconds_alone(const Known& known) const;
  double factor_of(const Known& known) const;
  std::vector<Known*> find_sharing();
  std::vector<double> allocated(const std::vector<Known*>& sharing) const;
  std::vector<double> factors_among_equals(const std::vector<Known*>& sharing, std::span<const SharedCall> calls) const;

  const Options options_;
  const double whole_call_;  // factor of a call whose progress is not known
  KnownByName known_;
  // The times at which each known one expires, or ceases to linger if that is first.
  std::set<std::pair<Time, std::string_view>> due_;
  bool has_changed_ = false;
  uint64_t computations_ = 0;
};

}  // namespace banyan::service
