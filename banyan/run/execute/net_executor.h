// NetExecutor: carries out the calls of a communicator whose ranks are on several hosts, over connections, several at a
// time. NetPlans (net_plans.h) says what each call moves, and along which connections; the engine moves it, and finds a
// rank that calls something else; messages between two ranks are letters beside the calls. If a link is lost, but no
// rank, plans are revised and the calls in flight repeated (revision.h); if an operator wishes for other plans, calls
// go over to them one by one (plan_switch.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/engine/engine.h"
#include "banyan/run/execute/coded_slices.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/execute/lost_ways.h"
#include "banyan/run/execute/net_plans.h"
#include "banyan/run/execute/pacer.h"
#include "banyan/run/execute/plan_ahead.h"
#include "banyan/run/execute/plan_changes.h"
#include "banyan/run/execute/revision_talk.h"
#include "banyan/run/execute/unconfirmed_calls.h"
#include "banyan/run/net/message_streams.h"
#include "banyan/run/net/messenger.h"
#include "banyan/run/net/step_budget.h"
#include "banyan/run/system/waiter.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan::run {

class NetExecutor : public Executor, public PlanReviser, private EventSource {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kDepth = 8;

  struct Options {
    bool is_oversubscribed = false;
    std::function<void(const Error&)> tell_peers;
    std::function<void(const std::string&)> tell;     // a text to all ranks, this one too: to their hear()
    std::function<bool(uint32_t rank)> is_gone = {};  // dead, or has left; empty: nobody is
    // Gate of the owner of several executors, who shares the links among them. Its sequences are the numbers of calls,
    // from 1 in the order of their starts.
    std::shared_ptr<SliceGate> gate = {};
    // Told of each call, by its number as above, when it begins to follow a plan of this source; again when it is
    // repeated by another one.
    std::function<void(uint64_t number, const Call& call, const std::shared_ptr<PlanSource>& source)> begins = {};
    // Budget of one advance() or advance_messages(), for a thread that serves several executors by turns; none: they
    // move what they can.
    std::shared_ptr<const StepBudget> budget = {};
    bool abandons = false;  // what is under way at its end (LaneControl::abandon)
    // Small calls are over here before they are confirmed (revision.h): then attend_at() is to be heeded.
    bool confirms_late = false;
    MemoryKeeper keeper = {};    // of messages that come before their receives, and of results that others may want
    Background background = {};  // for plans; empty: they are made on this executor's thread
    // Makes the transport; `path` gives the path of each lane.
    std::function<std::unique_ptr<ChannelTransport>(std::function<Path(uint32_t peer, uint32_t lane)> path)> transport;
  };
  NetExecutor(NetPlans::Options plans, Options options);
  ~NetExecutor() override;

  size_t depth() const override { return kDepth; }
  void start(const Call& call, const CallNumbers& numbers) override;
  bool advance() override;
  bool waits_for_peers() const override { return waits_for_peers_; }
  void finish(Watch& watch) override;
  uint64_t start_message(const Call& call) override;
  bool advance_messages(std::vector<MessageDone>& done) override;
  void sleep(const std::function<bool()>& try_again) override;
  void wake() override { transport_->wake(); }
  BackOff back_off() const override { return BackOff(options_.is_oversubscribed, BackOff::Look::dear); }
  uint32_t waiting_for() const override;
  bool can_do_without(uint32_t rank) const override {
    return flights_.empty() && !is_revising() && messages_.can_do_without(rank);
  }
  std::optional<Arriving> arriving_from(uint32_t rank) const override { return arriving_in(messages_, rank); }
  bool notices_last_bytes() const override { return lanes_ != nullptr && !is_revising(); }
  uint64_t steps() const override { return steps_ + engine_.steps(); }
  uint64_t progress() const override { return ended_calls_ + std::max(farthest_, engine_.steps() - round_begin_); }
  uint64_t propose(const PlanWish& wish) override;
  // The update that the next call is planned for.
  const FabricUpdate& adopted() const { return plans_->adopted(); }
  uint32_t generation() const override { return adopted_.load(std::memory_order_acquire); }
  SentBytes sent_bytes() const override { return transport_->sent_bytes(); }
  std::vector<LaneBytes> lane_bytes() const override { return transport_->lane_bytes(); }
  std::optional<WishOutcome> outcome(uint64_t wish) const override { return changes_.outcome(wish); }
  // Loads of the lanes to other hosts, each with the cables that it crosses, as far as its plan says.
  struct LaneOnCables {
    LaneLoad load;
    std::vector<uint32_t> cables;
  };
  std::vector<LaneOnCables> loads() const;
  // Packets of its lanes bear this code point from now on (LaneControl::mark), if the transport has lanes.
  void mark(uint8_t dscp) {
    if (lanes_ != nullptr) lanes_->mark(dscp);
  }
  // The number of times that calls were stopped to be repeated by other plans. Any thread.
  uint32_t suspensions() const { return suspensions_.load(std::memory_order_relaxed); }
  // Calls that are over here and not confirmed.
  size_t unconfirmed() const { return unconfirmed_.size(); }
  // The number of calls that were over here and have begun again, since they were not over at all ranks. Any thread.
  uint32_t shared() const { return shared_.load(std::memory_order_relaxed); }
  uint32_t reroutes() const override { return reroutes_.load(std::memory_order_relaxed); }
  void hear(const std::string& text) override;
  void attend() override;
  bool is_unsettled() const override;
  std::optional<Clock::time_point> attend_at() const override;
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override { return std::nullopt; }
  PlanReviser* reviser() override { return may_revise_ ? this : nullptr; }
  EventSource* events() override { return this; }

 private:
  static constexpr std::chrono::milliseconds kLookAfter{250};  // lanes, again
  // The ranks tell each other how much each has for each.
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

  // Both gates that every slice has to pass.
  class Gates : public SliceGate {
   public:
    Gates(SliceGate* outer, SliceGate* pacer) : outer_(outer), pacer_(pacer) {}
    bool admit(const SliceOffer& offer) override {
      return (outer_ == nullptr || outer_->admit(offer)) && (pacer_ == nullptr || pacer_->admit(offer));
    }

   private:
    SliceGate* const outer_;
    SliceGate* const pacer_;
  };

  void prepare(WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;
  void keep_inputs(Flight& flight);
  bool is_small(const Call& call) const;
  size_t result_bytes(const Call& call) const {
    return call.recv_elements(rank_, ranks_) * element::size_of(call.type);
  }
  bool is_over(const Flight& flight);
  void keep_result(const Flight& flight);
  void forget_confirmed();
  bool is_holding() const { return options_.confirms_late && engine_.is_holding(); }
  bool has_to_settle() const { return flights_.empty() && (!unconfirmed_.is_empty() || is_holding()); }
  bool settle();
  bool progress_engine();
  void begin_counting(Flight& flight);
  void begin(Flight& flight);
  bool begin_waiting();
  bool can_begin(const Flight& flight);
  bool is_ready(const Call& call);
  uint64_t first_to_begin_anew(const RevisionDecision& decision);
  const NetPlans* plans_with(uint32_t transport_lane) const;
  std::vector<uint32_t> cables_of(uint32_t peer, uint32_t lane) const;
  bool can_choose_ways() const { return lanes_ != nullptr && plans_->may_reroute(); }
  bool can_make_lanes_again() const { return lanes_ != nullptr && may_revise_; }
  bool move_messages();
  std::vector<LaneHealth> health() { return lanes_ == nullptr ? std::vector<LaneHealth>() : lanes_->health(); }
  bool is_revising() const { return is_stopped_; }
  PlanChanges::Calls calls() const;
  bool change_plans();
  void go_over();
  void close_old_lanes();
  void close_lanes_of(uint32_t generation);
  uint32_t message_lane() const { return message_plans_->transport_lane(NetPlans::kMessageLane); }
  bool move();
  bool makes_lanes_again(const Error& error);
  bool is_gone(uint32_t rank) const { return options_.is_gone && options_.is_gone(rank); }
  void look_after_messages();
  void answer_call();
  void look_after_lanes();
  uint32_t next_generation() const { return std::max(talk_.generation(), changes_.latest()) + 1; }
  void stop_for(uint32_t generation);
  RevisionReport report(uint32_t generation);
  bool go_on_revising();
  void note_end();
  void note_round();
  void restart(const RevisionDecision& decision, const FabricUpdate& update);
  void keep_results_of_suspended();
  void begin_again(UnconfirmedCalls::Kept& call, const RevisionDecision& decision);
  void begin_again(Flight& flight, const RevisionDecision& decision);
  EngineCommand share_result(const Call& call, uint64_t number, const CallNumbers& numbers, uint32_t root) const;
  std::shared_ptr<NetPlans> follow(std::unique_ptr<NetPlans> plans);
  void pace_rounds(const RevisionDecision& decision);
  void try_lost_ways(Clock::time_point now);
  std::string names_of(const std::set<uint32_t>& cables, const std::set<uint32_t>& but) const;
  void tell_people_of_change(const FabricUpdate& update) const;
  void tell_people_of_losses(const FabricUpdate& update, const RevisionDecision& decision) const;

  const uint32_t rank_, ranks_;
  const Options options_;
  std::shared_ptr<NetPlans> plans_;          // that the next call follows; of the thread that drives
  const bool may_revise_;                    // of these and all later ones, for any thread
  std::shared_ptr<NetPlans> old_;            // that calls in flight may follow, and whose lanes are not closed yet
  std::shared_ptr<NetPlans> message_plans_;  // whose lanes messages take; one of these, or earlier ones
  const std::unique_ptr<ChannelTransport> transport_;
  const std::shared_ptr<LastingWake> wake_;  // shared with tasks on other threads
  Waiter waiter_{*this};                     // when this executor has a thread for itself
  LaneControl* const lanes_;                 // of the transport; none where it chooses ways itself
  MessageStreams streams_;
  Messenger messages_;
  Pacer pacer_;
  Gates gates_;
  Engine engine_;
  std::deque<Flight> flights_;      // the oldest first
  UnconfirmedCalls unconfirmed_;    // before all flights
  uint64_t begun_ = 0, steps_ = 0;  // calls, and moves beside those of the engine
  bool waits_for_peers_ = false;    // since the last move
  // Progress: calls and messages that ended, with the steps of the engine that they took; those that the engine had
  // made when the present round of plans began; the most that a round has made since a call ended.
  uint64_t ended_calls_ = 0, round_begin_ = 0, farthest_ = 0;
  std::vector<MessageEnd> ended_;  // messages, just now

  PlanAhead ahead_;
  PlanChanges changes_;
  RevisionTalk talk_;
  bool is_stopped_ = false;  // until all have agreed on the generation of talk_
  std::vector<Engine::Suspended> suspended_;
  LostWays lost_ways_;
  std::optional<RevisionTalk::Agreement> agreement_;  // to be carried out at restart_at_
  Clock::time_point restart_at_;
  uint32_t rounds_in_vain_ = 0;  // one after the other, since a call was last done
  Clock::time_point looked_at_;
  std::optional<Clock::time_point> broken_since_;  // a connection that carries messages
  std::atomic<uint32_t> adopted_{0};               // the last generation that is settled
  std::atomic<uint32_t> reroutes_{0}, suspensions_{0}, shared_{0};
};

}  // namespace banyan::run
