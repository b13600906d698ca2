// NetExecutor: carries out the calls of a communicator whose ranks are on several hosts, over connections, several at a
// time. NetPlans (net_plans.h) says what each call moves, and along which connections; the engine moves it, and finds a
// rank that calls something else; messages between two ranks are letters beside the calls. If a link is lost, but no
// rank, plans are revised and the calls in flight repeated (revision.h); if an operator wishes for other plans, calls
// go over to them one by one (plan_switch.h).
//
// It owns parts that do this, and decides who has a turn:
//   PlansInForce   which plans the next call follows, and how calls go over to others (plans_in_force.h)
//   Flights        the calls under way (flights.h)
//   Messenger      the messages (net/messenger.h), over streams that outlast connections
//   PlanRevision   stops both after a loss, and has them begin again (plan_revision.h)
//
// (1) While a revision is under way, calls and messages stand still, and no plan is changed otherwise.
// (2) A move goes on with a revision that is under way; else with a change of plans or, if that has nothing to do,
//     calls that wait; then with the streams of messages and all that the engine can move.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/run/execute/call_messages.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/execute/flights.h"
#include "banyan/run/execute/plan_revision.h"
#include "banyan/run/net/messenger.h"
#include "banyan/run/system/waiter.h"

namespace banyan::run {

class NetExecutor : public Executor, public PlanReviser, private EventSource {
 public:
  using Clock = std::chrono::steady_clock;
  using Options = NetOptions;

  NetExecutor(NetPlans::Options plans, Options options);
  ~NetExecutor() override;

  size_t depth() const override { return Flights::kMost; }
  void start(const Call& call, const CallNumbers& numbers) override;
  bool advance() override;
  bool waits_for_peers() const override { return waits_for_peers_; }
  void finish(Watch& watch) override;
  uint64_t start_message(const Call& call) override { return start_message_in(messages_, call); }
  bool advance_messages(std::vector<MessageDone>& done) override;
  void sleep(const std::function<bool()>& try_again) override;
  void wake() override { transport_->wake(); }
  BackOff back_off() const override { return BackOff(options_.is_oversubscribed, BackOff::Look::dear); }
  uint32_t waiting_for() const override;
  bool can_do_without(uint32_t rank) const override {
    return flights_.is_empty() && !is_revising() && messages_.can_do_without(rank);
  }
  std::optional<Arriving> arriving_from(uint32_t rank) const override { return arriving_in(messages_, rank); }
  bool notices_last_bytes() const override { return plans_.lanes() != nullptr && !is_revising(); }
  uint64_t steps() const override { return work_.steps(flights_.steps()); }
  uint64_t progress() const override { return work_.progress(flights_.steps()); }
  uint64_t propose(const PlanWish& wish) override;
  // The update that the next call is planned for.
  const FabricUpdate& adopted() const { return plans_.present().adopted(); }
  uint32_t generation() const override { return plans_.generation(); }
  SentBytes sent_bytes() const override { return transport_->sent_bytes(); }
  std::vector<LaneBytes> lane_bytes() const override { return transport_->lane_bytes(); }
  std::optional<WishOutcome> outcome(uint64_t wish) const override { return plans_.changes().outcome(wish); }
  // Loads of the lanes to other hosts, each with the cables that it crosses, as far as its plan says.
  struct LaneOnCables {
    LaneLoad load;
    std::vector<uint32_t> cables;
  };
  std::vector<LaneOnCables> loads() const;
  // Packets of its lanes bear this code point from now on (LaneControl::mark), if the transport has lanes.
  void mark(uint8_t dscp) {
    if (plans_.lanes() != nullptr) plans_.lanes()->mark(dscp);
  }
  // The number of times that calls were stopped to be repeated by other plans. Any thread.
  uint32_t suspensions() const { return revision_.suspensions(); }
  // Calls that are over here and not confirmed.
  size_t unconfirmed() const { return flights_.unconfirmed(); }
  // The number of calls that were over here and have begun again, since they were not over at all ranks. Any thread.
  uint32_t shared() const { return flights_.shared(); }
  uint32_t reroutes() const override { return revision_.reroutes(); }
  void receive(const std::string& text) override;
  void poll() override;
  bool is_unsettled() const override;
  std::optional<Clock::time_point> poll_at() const override { return flights_.settles_at(); }
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override { return std::nullopt; }
  PlanReviser* reviser() override { return plans_.may_revise() ? this : nullptr; }
  EventSource* events() override { return this; }

 private:
  void prepare(WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;
  bool is_revising() const { return revision_.is_under_way(); }
  bool has_sent_all();
  bool move();
  bool move_messages(std::vector<MessageDone>& done);
  bool progress_calls();
  bool change_plans();

  const RankAndSize own_;
  const Options options_;
  const std::unique_ptr<ChannelTransport> transport_;
  Waiter waiter_{*this};  // when this executor has a thread for itself
  WorkDone work_;
  PlansInForce plans_;
  MessageStreams streams_;
  Messenger messages_;
  Flights flights_;
  PlanRevision revision_;
  bool waits_for_peers_ = false;  // since the last move
};

}  // namespace banyan::run
