// NetExecutor: carries out the calls of a communicator whose ranks are on several hosts, over connections, several at a
// time. What each call moves, and along which connections, net_plans.h says; the engine moves it, and finds out who
// calls something else; messages between two ranks are letters beside the calls.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "banyan/run/engine/engine.h"
#include "banyan/run/executor.h"
#include "banyan/run/net/letters.h"
#include "banyan/run/net_plans.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan {

class NetExecutor : public Executor {
 public:
  static constexpr size_t kDepth = 8;

  struct Options {
    bool is_crowded = false;
    std::function<void(const Error&)> tell_peers;
    std::function<std::vector<RankProgress>()> ask_peers;
    // Makes the transport; `path` says which way a lane of it takes.
    std::function<std::unique_ptr<ChannelTransport>(std::function<Path(uint32_t peer, uint32_t lane)> path)> transport;
  };
  NetExecutor(NetPlans::Options plans, Options options);

  size_t depth() const override { return kDepth; }
  void start(const Call& call, const CallNumbers& numbers) override;
  bool advance() override;
  void finish(Watch& watch) override;
  uint64_t start_message(const Call& call) override;
  bool advance_messages() override;
  bool is_message_done(uint64_t ticket) const override { return messages_.is_done(ticket); }
  void nap(const std::function<bool()>& try_again) override;
  void wake() override { transport_->wake(); }
  bool is_crowded() const override { return options_.is_crowded; }
  uint32_t waiting_for() const override;
  uint64_t steps() const override { return steps_ + engine_.steps(); }
  uint64_t oldest() const override;
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override { return std::nullopt; }
  RankProgress own_progress() const override;
  std::vector<RankProgress> progress() const override { return options_.ask_peers(); }

 private:
  // A call under way.
  struct Flight {
    uint64_t number = 0;
    Engine::Ticket ticket;
    std::vector<std::byte> scaled;  // the input of a premul_sum
  };

  const uint32_t rank_, ranks_;
  const Options options_;
  NetPlans plans_;
  const std::unique_ptr<ChannelTransport> transport_;
  Letters messages_;
  Engine engine_;
  std::deque<Flight> flights_;  // the oldest first
  uint64_t steps_ = 0;

  mutable std::mutex mutex_;  // protects progress_
  RankProgress progress_;
};

}  // namespace banyan
