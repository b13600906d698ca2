// NetExecutor: carries out the calls of a communicator whose ranks are on several hosts, over connections, several at a
// time. What each call moves, and along which connections, net_plans.h says; the engine moves it, and finds out who
// calls something else; messages between two ranks are letters beside the calls. When a link is lost but no rank, the
// calls under way are repeated on the others (rerouting.h).
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/engine/engine.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/execute/net_plans.h"
#include "banyan/run/execute/rerouting.h"
#include "banyan/run/net/letters.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan::run {

class NetExecutor : public Executor, public PlanReviser {
 public:
  static constexpr size_t kDepth = 8;

  struct Options {
    bool is_oversubscribed = false;
    std::function<void(const Error&)> tell_peers;
    std::function<void(const std::string&)> tell;  // a text to all ranks, this one too: to their hear()
    // Makes the transport; `path` says which way a lane of it takes.
    std::function<std::unique_ptr<ChannelTransport>(std::function<Path(uint32_t peer, uint32_t lane)> path)> transport;
  };
  NetExecutor(NetPlans::Options plans, Options options);

  size_t depth() const override { return kDepth; }
  void start(const Call& call, const CallNumbers& numbers) override;
  bool advance() override;
  void finish(Watch& watch) override;
  uint64_t start_message(const Call& call) override;
  bool advance_messages(std::vector<MessageDone>& done) override;
  void sleep(const std::function<bool()>& try_again) override;
  void wake() override { transport_->wake(); }
  BackOff back_off() const override { return BackOff(options_.is_oversubscribed, BackOff::Look::dear); }
  uint32_t waiting_for() const override;
  bool can_do_without(uint32_t rank) const override { return flights_.empty() && messages_.can_do_without(rank); }
  uint64_t steps() const override { return steps_ + engine_.steps(); }
  uint32_t reroutes() const override { return reroutes_.load(std::memory_order_relaxed); }
  void hear(const std::string& text) override;
  void attend() override;
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override { return std::nullopt; }
  PlanReviser* reviser() override { return plans_.may_reroute() ? this : nullptr; }

 private:
  using Clock = std::chrono::steady_clock;
  // A call under way.
  struct Flight {
    uint64_t number = 0;
    std::optional<Engine::Ticket> ticket;  // none before it is begun
    Call call;
    CallNumbers numbers{};
    std::vector<size_t> counts[4];  // what the call's spans point to, when it may be planned again
    std::vector<std::byte> scaled;  // the input of a premul_sum
  };

  void begin(Flight& flight);
  bool is_rerouting() const { return round_ != plans_.round(); }
  bool move();
  void answer_call();
  void pace(std::shared_ptr<const RankPlan> plan);
  void end_pacing();
  void look_after_lanes();
  void stop_for(uint32_t round);
  bool go_on_after_loss();
  void restart(const RerouteDecision& decision);

  const uint32_t rank_, ranks_;
  const Options options_;
  NetPlans plans_;
  const std::unique_ptr<ChannelTransport> transport_;
  Letters messages_;
  Engine engine_;
  std::deque<Flight> flights_;             // the oldest first
  std::shared_ptr<const RankPlan> paced_;  // whose lanes are paced, shared with the engine; none when none are
  Clock::time_point paced_until_;
  uint64_t begun_ = 0, steps_ = 0;  // calls, and moves beside those of the engine
  std::vector<MessageEnd> ended_;   // messages, just now

  Rerouting rerouting_;
  uint32_t round_ = 0;  // that this rank has reported on; the plans are of the same when it has been decided
  std::vector<Engine::Suspended> suspended_;
  uint64_t reports_seen_ = 0;
  static constexpr uint32_t kMostRoundsInVain = 3;
  uint32_t rounds_in_vain_ = 0;  // one after the other, since a call was last done
  Clock::time_point looked_at_;
  std::atomic<bool> is_called_{false};  // a peer has reported
  std::atomic<uint32_t> reroutes_{0};
};

}  // namespace banyan::run
