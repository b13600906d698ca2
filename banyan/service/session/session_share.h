// SessionShare: the part of the network that a session gets. It has the session's calls go at the rate of the steward
// (rate_gate.h), and, in the session of rank 0, tells the steward how the calls go (share/steward.h).
//
// Reports go when a call begins, every kRefresh while calls are under way, and when none has been for kIdle: at most
// one each kLeastPause.
//
// While calls are under way it also looks at the session's lanes (way_meter.h).
//
// One thread: that of the session's worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "banyan/run/call/call.h"
#include "banyan/run/execute/plan_source.h"
#include "banyan/service/session/carried_bytes.h"
#include "banyan/service/session/plan_advice.h"
#include "banyan/service/session/rate_gate.h"
#include "banyan/service/session/way_meter.h"
#include "banyan/service/share/steward.h"

namespace banyan::service {

// Bytes per second on any link; infinite: none.
double cap_of(const Grant& grant);

class SessionShare {
 public:
  using Time = RateGate::Time;
  static constexpr Time kRefresh = std::chrono::milliseconds(5), kIdle = std::chrono::milliseconds(1),
                        kLeastPause = std::chrono::milliseconds(1);

  struct Options {
    std::shared_ptr<RateGate> gate;  // shared with the executor, which has the same thread
    // Bytes per second, indexed by link of the fabric; shared with all sessions.
    std::shared_ptr<const std::vector<double>> capacities;
    std::function<Time()> now;  // as that of the gate
    std::string tenant = {};
    CallReport about = {};                             // of each report, but for what calls say
    std::function<void(const CallReport&)> send = {};  // empty: this session does not report
    std::shared_ptr<CarriedBytes> carried = {};        // of the daemon: where a session that reports adds what it did
    uint32_t ranks = 1;                                // of its communicator
  };
  explicit SessionShare(Options options) : options_(std::move(options)) {}
  // Looks at its lanes from now on.
  void watch(std::unique_ptr<LaneWatch> lanes) { lanes_ = std::move(lanes); }

  // Calls begin and end in the order of their numbers. `source`: of the plan that it follows. One that has begun may
  // begin again, by another plan.
  void begin(uint64_t number, const run::Call& call, const std::shared_ptr<run::PlanSource>& source);
  // The call of this number, which has still to begin, gets this and not what the communicator gets.
  void expect(uint64_t number, const Grant& grant) { expected_.insert_or_assign(number, terms_by(grant)); }
  void end(uint64_t number);
  void set_rate(uint64_t rate) { options_.gate->set_rate(rate); }
  // From now on, but for calls that were to get something else.
  void set_terms(const Grant& grant);

  // True if something is to be done at once.
  bool is_due() const {
    const std::optional<Time> when = next();
    return when && *when <= options_.now();
  }
  // True while calls are under way, or the steward has still to be told that none is.
  bool is_active() const { return !calls_.empty() || reported_; }
  // Part of the oldest call that this rank has sent; 0: none is under way.
  double progress() const { return calls_.empty() ? 0 : options_.gate->done(calls_.front().number); }
  // The steward's rate, while it counts; nothing: no limit.
  std::optional<uint64_t> rate() const { return options_.gate->steward_rate(); }
  // The last call that followed a plan; `adopted` is not known here.
  std::optional<PlannedCall> planned() const;
  // Looks at lanes, and sends the report that is due. To be called after something has moved, and at next().
  // `has_messages`: some are under way, beside calls.
  void look(bool has_messages = false);
  // The time at which a slice that was held back may leave, a report is due, or lanes are to be looked at; nothing: not
  // before something else happens.
  std::optional<Time> next() const;

 private:
  struct Load {
    std::vector<LinkUse> links;
    double busiest = 0;                        // bytes on the link that has most
    uint64_t most = VirtualQueue::kUnlimited;  // the rate that the links allow, as RateGate has it
  };
  struct Terms {  // of a call
    std::string sharer = {};
    double weight = 1;
    ShareClass share_class = ShareClass::normal;
    double cap = Steward::kNoLimit;

    friend bool operator==(const Terms&, const Terms&) = default;
  };
  struct UnderWay {
    uint64_t number = 0;
    std::shared_ptr<const Load> load;  // shared with the cache
    std::optional<Terms> terms;        // none: as the communicator
  };
  using LoadKey = std::tuple<run::OperationKind, element::DataType, uint64_t, uint32_t>;

  std::shared_ptr<const Load> load_of(const run::Call& call, const std::shared_ptr<run::PlanSource>& source);
  Terms terms_by(const Grant& grant) const;
  Terms terms_of(const UnderWay& call) const;
  void limit(const UnderWay& call);
  std::optional<Time> report_due() const;
  bool has_lanes_in_use() const { return lanes_ && (has_messages_ || !calls_.empty()); }
  void look_at_lanes();
  void report_calls();

  Options options_;
  std::unique_ptr<LaneWatch> lanes_;       // none: nobody wants to know
  bool has_messages_ = false;              // at the last look
  std::weak_ptr<run::PlanSource> source_;  // of which the loads are
  std::map<LoadKey, std::shared_ptr<const Load>> loads_;
  std::deque<UnderWay> calls_;
  std::shared_ptr<run::PlanSource> planned_by_;  // the last call that followed a plan; shared with the executor
  run::PlanSource::Question planned_{};
  std::shared_ptr<const Load> planned_load_;
  std::map<uint64_t, Terms> expected_;    // by number, of calls that have not begun
  std::shared_ptr<const Load> reported_;  // with the last report; none where it said that no call is under way
  Terms reported_terms_;                  // with the last report of a call
  Time reported_at_{0}, idle_since_{0};
};

}  // namespace banyan::service
