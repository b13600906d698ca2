// Steward: decides how fast the communicators of all hosts may go, from what their daemons report.
//
// A communicator whose calls go between hosts has one reporter, the daemon of its rank 0. It reports when a call begins
// and ends, every few milliseconds how far the call has come, and now and then that it is still there. Calls that have no
// link in common with calls of others are not limited, since nobody gains by it. All others get speeds by allocation.h:
// classes, weights of tenants, caps; and the farther a call has come, the more (progress_weight.h), so that training jobs
// that are alike come to communicate in turn.
//
// A communicator counts as active while a call is under way and for `linger` after, so that the small gaps between calls
// do not make everybody's speed jump. One that has not been reported for `expiry` is forgotten: its host may be gone.
// Nothing is kept that reports would not bring back: a steward that takes over knows all after the longest pause
// between reports.
//
// Pure: the time comes from outside. One thread. report() takes time O(log n); decide() as allocate().
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/service/share/allocation.h"
#include "banyan/service/share/progress_weight.h"

namespace banyan::service {

struct CallReport {
  std::string communicator;
  uint64_t number = 0;  // of the reports of this communicator; those that are not above the last one are ignored
  std::string tenant;
  double weight = 1;  // of the tenant; where reports differ, the last one counts
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

  struct Options {
    std::vector<double> capacities;  // by link: bytes per second
    double least = 0.05;             // as in SharedNetwork
    ProgressWeight progress = {};
    Time linger = std::chrono::milliseconds(2);
    Time expiry = std::chrono::seconds(1);
  };
  // Throws Error{invalid_input} for numbers that allocation.h does not take.
  explicit Steward(Options options);

  // Throws Error{invalid_input} for a report that makes no sense (a link that there is not, a weight of 0); nothing has
  // changed then.
  void report(const CallReport& report, Time now);
  // The communicator is no more.
  void forget(const std::string& communicator);

  struct Speed {
    std::string communicator;
    double calls_per_second = kNoLimit;  // of calls like the one that is under way
  };
  // Speeds that have changed by more than 1 % since they were last told, and those of active communicators that have
  // never been told one. A communicator that becomes active again is told anew when it gets another speed than
  // the last.
  std::vector<Speed> decide(Time now);
  // When decide() has something new though nobody reports: somebody's linger or expiry is over. Nothing: never.
  std::optional<Time> next() const;

  // For operators: all that are known, and what they were told.
  struct Row {
    CallReport report;  // the last one
    Speed speed;
    bool is_active = false;
  };
  std::vector<Row> rows() const;

 private:
  struct Known {
    CallReport last;
    Time reported{0}, active_until{0};
    double told = kNoLimit;
    bool is_told = false;
  };

  const Options options_;
  std::map<std::string, Known> known_;  // by communicator
};

}  // namespace banyan::service
