// PlanChanges: goes over to other plans for an executor (plan_switch.h): receives the texts, has the next plans made,
// and connects their lanes while calls go on by the present ones.
//
// receive() and propose() may be called by any thread, everything else by that of the executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/execute/background.h"
#include "banyan/run/execute/net_plans.h"
#include "banyan/run/execute/plan_switch.h"

namespace banyan::run {

class PlanChanges {
 public:
  struct Options {
    uint32_t rank = 0, ranks = 1;
    std::function<void(const std::string& text)> send = {};  // brings a text to receive() of all ranks, this one too
    Background background = {};                              // empty: plans are made on the executor's thread
    std::function<void()> wake = {};                         // there is something to advance; any thread
    // True if the next plans' connection with a peer on this lane of the transport is made; asks for it the first time.
    // Throws the reason if there will be none.
    std::function<bool(uint32_t peer, uint32_t lane)> connects = {};
  };
  explicit PlanChanges(Options options);

  // False for a text that is about something else.
  bool receive(const std::string& text);
  // Returns the number of the wish among those of this rank, from 1 on. advance() sends it.
  uint64_t propose(const PlanWish& wish);
  // As PlanSwitch::outcome.
  std::optional<WishOutcome> outcome(uint64_t wish) const { return switch_.outcome(wish); }

  // State of the executor's calls.
  struct Calls {
    uint64_t begun = 0;  // the number of the last call that follows plans, or has its counts exchanged by them
    bool all_follow_plans = false;  // none waits, or has its counts exchanged
    bool is_idle = false;           // none is in flight
    uint64_t over = 0;              // all calls up to this number are, and confirmed
  };
  // Goes on as far as possible; true if anything moved. The next call would follow `plans`.
  bool advance(const NetPlans& plans, const Calls& calls);

  bool may_begin(uint64_t call) const { return switch_.may_begin(call); }
  // True if go_over() is due, before this call can begin.
  bool must_go_over(uint64_t call) const { return switch_.must_go_over(call); }
  // The plans that all later calls follow.
  std::unique_ptr<NetPlans> go_over();
  // All ranks are stopped, by a revision of this generation.
  void interrupt(uint32_t generation);

  bool is_under_way() const { return switch_.change().has_value(); }
  // True if it is to be advanced though no text comes and no call is made.
  bool is_preparing() const { return switch_.change() && switch_.change()->phase == PlanSwitch::Phase::preparing; }
  // As in PlanSwitch.
  uint32_t settled() const { return switch_.settled(); }
  uint32_t latest() const { return switch_.latest(); }
  uint32_t closed_before() const { return switch_.closed_before(); }
  const std::string& refusal() const { return switch_.refusal(); }
  // An update that all adopt though this rank follows it in no call yet.
  const FabricUpdate* decided() const;
  // None: they are not made yet.
  const NetPlans* next() const { return next_.get(); }

 private:
  void begin_draft(const NetPlans& plans);
  bool prepare(const NetPlans& plans);
  bool are_connected();
  uint64_t limit(const Calls& calls) const;
  void send_texts();

  const Options options_;
  PlanSwitch switch_;
  std::future<Made<std::unique_ptr<NetPlans>>> draft_;  // not valid: none is being made
  std::unique_ptr<NetPlans> next_;                      // of the change under way
  uint64_t begun_when_ready_ = 0;                       // calls
  std::mutex mutex_;                                    // protects what follows
  std::vector<std::string> received_;
  std::vector<PlanWish> proposed_;  // and not sent yet
  uint64_t proposals_ = 0;
};

}  // namespace banyan::run
