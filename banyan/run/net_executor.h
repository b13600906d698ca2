// NetExecutor: carries out the calls of a communicator whose ranks are on several hosts, over connections.
//
// Allreduce, reduce, broadcast, allgather and reduce-scatter follow the plan that a PlanSource gives for their size;
// the others are letters from each rank to each. Before a call moves anything, those who will exchange something tell
// each other what they call, so a mismatch is an error and no hang.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "banyan/run/engine/engine.h"
#include "banyan/run/executor.h"
#include "banyan/run/net/letters.h"
#include "banyan/run/plan_source.h"
#include "banyan/run/transport/lane_transport.h"

namespace banyan {

class NetExecutor : public Executor {
 public:
  struct Options {
    uint32_t rank = 0, ranks = 1;
    bool is_crowded = false;
    std::shared_ptr<PlanSource> plans;  // shared with the other communicators of the caller
    std::function<void(const Error&)> tell_peers;
    std::function<std::vector<RankProgress>()> ask_peers;
  };
  NetExecutor(std::unique_ptr<Connector> connector, Options options);

  void start(const Call& call, const CallNumbers& numbers) override;
  bool advance() override;
  void finish(Watch& watch) override;
  uint64_t start_message(const Call& call) override;
  bool advance_messages() override;
  bool is_message_done(uint64_t ticket) const override { return messages_.is_done(ticket); }
  void nap(const std::function<bool()>& try_again) override;
  void wake() override { transport_.wake(); }
  bool is_crowded() const override { return options_.is_crowded; }
  uint32_t waiting_for() const override;
  uint64_t steps() const override { return steps_; }
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override { return std::nullopt; }
  RankProgress own_progress() const override;
  std::vector<RankProgress> progress() const override { return options_.ask_peers(); }

 private:
  enum class Phase : uint8_t { idle, greet, follow_plan, exchange };
  struct Greeting {
    uint64_t begun = 0;
    CallNumbers numbers{};
  };

  void begin_plan(CollectiveKind kind, uint64_t elements);
  void follow_plan();
  void begin_exchange();
  void greet(const std::vector<uint32_t>& peers);
  void read_greetings() const;
  void finish_call();
  void reduce_pieces();
  uint64_t offset_of(std::span<const size_t> counts, std::span<const size_t> displacements, uint32_t rank) const;

  const Options options_;
  LaneTransport transport_;
  Letters letters_, messages_;  // of calls, on lane 0; between two, on lane 1
  Engine engine_;
  uint64_t steps_ = 0;

  // Of the call under way.
  Phase phase_ = Phase::idle;
  Call call_;
  std::vector<uint32_t> peers_;
  Greeting own_greeting_;
  std::vector<Greeting> greetings_;  // by rank
  std::vector<std::byte> scaled_;    // the input of a premul_sum
  std::vector<std::byte> pieces_;    // of a reduction by exchange, by rank

  // The plan that was followed last, which calls often repeat.
  struct Prepared {
    const Schedule* schedule = nullptr;
    uint64_t elements = 0;
    std::shared_ptr<const RankPlan> plan;  // shared with the engine
  };
  Prepared prepared_;
  bool follows_plan_ = false;  // the call under way does

  mutable std::mutex mutex_;  // protects progress_
  RankProgress progress_;
};

}  // namespace banyan
