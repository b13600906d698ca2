// Flights: the calls of a NetExecutor that are under way, in the order in which they were started. It begins them by
// the plans in force, has the engine carry them out, and knows when each is over.
//
// A call waits until it is known which plans it follows, and its plan is made. An all-to-all-v that needs the counts of
// all ranks has two executions: the first exchanges the counts. Small calls may be over here before they are confirmed
// (revision.h): until then they are among the UnconfirmedCalls.
//
// (1) Calls have the numbers 1, 2, ... in the order of their starts, and begin in this order: while a call waits, none
//     after it begins. So executions begin in the same order on all ranks.
// (2) A call is under way from start() to end_first(), and only the oldest ends. All calls before it are over here.
// (3) All unconfirmed calls are before all that are under way.
// (4) Between stop() and restart() no call begins, moves or ends. The suspended executions are those of calls under way
//     and of unconfirmed calls.
// (5) Callers may free and change counts, and what is scaled for a sum, once start() has returned; other buffers stay
//     until their call is over.
//
// One thread. On the path of a small call (start(), progress(), is_first_over(), end_first()) nothing is allocated but
// what the engine takes, a place for the call, and a copy of its result where it is not confirmed.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/run/engine/direct_plan.h"
#include "banyan/run/execute/coded_slices.h"
#include "banyan/run/execute/pacer.h"
#include "banyan/run/execute/plans_in_force.h"
#include "banyan/run/execute/unconfirmed_calls.h"

namespace banyan::run {

class Flights {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMost = 8;  // under way

  // All belong to the caller, and outlive it.
  Flights(RankAndSize own, const NetOptions& options, PlansInForce& plans, ChannelTransport& transport);

  // ---- Calls in their order ----

  // Throws what plans and engine throw; then it is as if the call had not been made.
  void start(const Call& call, const CallNumbers& numbers);
  bool is_empty() const { return flights_.empty(); }
  // Begins those that wait, as far as possible; true if any began.
  bool begin_waiting();
  // Moves what can be moved now, within the budget, and lets confirmations go whose time has come. Throws what
  // Engine::progress() throws, in words for people.
  bool progress();
  // The oldest call has its result here, and nobody needs its buffers. False between stop() and restart().
  bool is_first_over();
  void end_first();

  uint64_t steps() const { return engine_.steps(); }
  bool waits_for_peers() const { return engine_.waits_for_peers(); }
  // A rank that a call waits for; allocates.
  std::optional<uint32_t> waiting_for() const;
  PlanChanges::Calls state() const;

  // ---- Calls that are over here and not confirmed ----

  size_t unconfirmed() const { return unconfirmed_.size(); }
  // The number of calls that were over here and have begun again. Any thread.
  uint32_t shared() const { return shared_.load(std::memory_order_relaxed); }
  // Their confirmations are on their way, or wait for the end of a revision.
  bool is_settling() const { return (unconfirmed_.is_settling() || are_stopped()) && has_to_settle(); }
  // The time at which settle() is to be called, if no call is made before.
  std::optional<Clock::time_point> settles_at() const;
  // If it is time, lets confirmations go without a call, and says that progress() is to be called.
  bool settle();
  // At the end of the executor, whether or not it is time; throws what progress() throws.
  void let_go_at_end();
  // The time until which a confirmation is held back here; nothing: none is.
  std::optional<Clock::time_point> holds_until() const;

  // ---- When all ranks stop for a revision ----

  bool are_stopped() const { return is_stopped_; }
  // May be called again before restart(). Returns the number of executions that are suspended.
  size_t stop();
  // Adds the calls that are over here.
  void report(RevisionReport& report) const;
  // Goes on by the plans that are present() now, as all ranks have agreed. Calls that wait begin by begin_waiting().
  void restart(const RevisionDecision& decision);

 private:
  // The ranks exchange how much each has for each.
  struct Counting {
    Engine::Ticket ticket;
    std::vector<uint64_t> own, all;
  };
  // A call under way.
  struct Flight {
    uint64_t number = 0;
    std::optional<Engine::Ticket> ticket;  // none before it follows a plan
    Call call;
    CallNumbers numbers{};
    OwnedCounts counts;                // of the call, when it may be planned again
    std::optional<Counting> counting;  // of an all-to-all-v along a plan, which follows one when it is over

    bool has_begun() const { return ticket || counting; }
    std::vector<std::byte> scaled;       // the input of a premul_sum
    std::unique_ptr<CodedSlices> codec;  // of one with codes
    // Result of a small call that had it when all were stopped; its copy in the output may have been overwritten since.
    std::optional<std::vector<std::byte>> result;
  };

  void keep_inputs(Flight& flight);
  void begin_counting(Flight& flight);
  void begin(Flight& flight);
  bool is_small(const Call& call) const;
  size_t result_bytes(const Call& call) const {
    return call.recv_elements(own_.rank, own_.ranks) * element::size_of(call.type);
  }
  void keep_result(const Flight& flight);
  void forget_confirmed();
  bool is_holding() const { return options_.confirms_late && engine_.is_holding(); }
  // Calls are over here and not confirmed, and none is under way whose steps would confirm them.
  bool has_to_settle() const { return flights_.empty() && (!unconfirmed_.is_empty() || is_holding()); }

  const Engine::Suspended* suspended_of(const Flight& flight) const;
  void keep_results_of_suspended();
  uint64_t first_to_begin_anew(const RevisionDecision& decision) const;
  EngineCommand share_result(const Call& call, uint64_t number, const CallNumbers& numbers, uint32_t root) const;
  void restart(const Engine::Suspended& suspended, const RevisionDecision& decision, uint64_t anew);
  void begin_again(UnconfirmedCalls::Kept& call, const RevisionDecision& decision);
  void begin_again(Flight& flight, const RevisionDecision& decision);

  const RankAndSize own_;
  const NetOptions& options_;
  PlansInForce& plans_;
  Pacer pacer_;
  Engine engine_;
  std::deque<Flight> flights_;    // the oldest first
  UnconfirmedCalls unconfirmed_;  // before all flights
  uint64_t started_ = 0;          // calls
  bool is_stopped_ = false;
  std::vector<Engine::Suspended> suspended_;
  std::atomic<uint32_t> shared_{0};
};

}  // namespace banyan::run
