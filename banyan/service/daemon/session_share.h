// SessionShare: the part of the network that a session gets. It has the session's calls go at the rate of the steward
// (rate_gate.h), and, in the session of rank 0, tells the steward how the calls go (share/steward.h).
//
// Reports go when a call begins, every kRefresh while calls are under way, and when none has been for kIdle: at most
// one each kLeastPause.
//
// One thread: the worker's.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "banyan/run/call/call.h"
#include "banyan/run/execute/plan_source.h"
#include "banyan/service/daemon/rate_gate.h"
#include "banyan/service/share/steward.h"

namespace banyan::service {

class SessionShare {
 public:
  using Time = RateGate::Time;
  static constexpr Time kRefresh = std::chrono::milliseconds(5), kIdle = std::chrono::milliseconds(1),
                        kLeastPause = std::chrono::milliseconds(1);

  struct Options {
    std::shared_ptr<run::PlanSource> source;  // shared with the executor, which has the same thread
    std::shared_ptr<RateGate> gate;           // shared with the executor
    // By link of the fabric, bytes per second; shared with all sessions.
    std::shared_ptr<const std::vector<double>> capacities;
    std::function<Time()> now;                         // as that of the gate
    CallReport about = {};                             // of each report, but for what calls say
    std::function<void(const CallReport&)> send = {};  // empty: this session does not report
  };
  explicit SessionShare(Options options) : options_(std::move(options)) {}

  // Calls begin and end in the order of their numbers. `generation`: of the plans by which it goes.
  void begin(uint64_t number, const run::Call& call, uint32_t generation);
  void end(uint64_t number);
  void set_rate(uint64_t rate) { options_.gate->set_rate(rate); }
  // For the reports to come.
  void set_terms(double weight, ShareClass share_class, double cap);

  bool is_due() const {
    const std::optional<Time> when = next();
    return when && *when <= options_.now();
  }
  // Whether next() may be anything.
  bool is_active() const { return !calls_.empty() || told_; }
  // Sends the report that is due. To be called after something has moved, and at next().
  void look();
  // When a slice may leave that was held back, or a report is due; nothing: when something else happens.
  std::optional<Time> next() const;

 private:
  struct Load {
    std::vector<LinkUse> links;
    double busiest = 0;                        // bytes on the link that has most
    uint64_t most = VirtualQueue::kUnlimited;  // the rate that the links allow, as RateGate has it
  };
  struct UnderWay {
    uint64_t number = 0;
    std::shared_ptr<const Load> load;  // shared with the cache
  };
  using LoadKey = std::tuple<uint32_t, run::OperationKind, element::DataType, uint64_t, uint32_t>;

  std::shared_ptr<const Load> load_of(const run::Call& call, uint32_t generation);
  std::optional<Time> report_due() const;

  Options options_;
  std::map<LoadKey, std::shared_ptr<const Load>> loads_;
  std::deque<UnderWay> calls_;
  std::shared_ptr<const Load> told_;  // with the last report; none where it said that no call is under way
  Time reported_at_{0}, idle_since_{0};
};

}  // namespace banyan::service
