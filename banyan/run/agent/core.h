// AgentCore: what an agent knows and says, without its thread and its sockets. Time, connections and the end of
// processes come from outside: a test runs the cores of a whole world in one thread, in a simulated network.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/run/agent/agent_connections.h"
#include "banyan/run/agent/hooks.h"
#include "banyan/run/agent/hub.h"
#include "banyan/run/agent/liveness.h"
#include "banyan/run/agent/membership.h"
#include "banyan/run/agent/state_queries.h"
#include "banyan/run/agent/suspicion.h"
#include "banyan/run/system/byte_stream.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/timers.h"

namespace banyan::run {

// On the thread of the timers; liveness() and hooks() on any.
class AgentCore {
 public:
  struct Options {
    uint32_t own = 0;                // rank
    std::vector<std::string> names;  // "process 4711 on node7", by rank
    std::vector<uint32_t> hosts{};   // by rank: equal on one host; empty: all on different ones
    std::chrono::milliseconds heartbeat{1000}, silent_after{5000}, lost_after{30'000};
  };
  struct Events {
    std::function<void()> joined;                // once: the hub is connected, or is this rank
    std::function<void(uint32_t rank)> changed;  // after its health has
    // As AgentConnections::Events. May be empty.
    std::function<void(uint32_t rank, uint32_t calls, const std::string& why)> unanswered{};
  };
  // All outlive it.
  AgentCore(Timers& timers, Dialer& dialer, ProcessObserver& processes, Options options, Events events);
  AgentCore(const AgentCore&) = delete;
  AgentCore& operator=(const AgentCore&) = delete;

  void start();
  // A peer has called. False when it was given up before.
  bool adopt(uint32_t rank, std::unique_ptr<ByteStream> stream) { return connections_.adopt(rank, std::move(stream)); }
  void process_ended(uint32_t rank) { hub_.process_ended(rank); }
  // This rank cannot go on: its communicators end with this error, and its peers are hung up on.
  void fail(const Error& error) noexcept;

  const Liveness& liveness() const { return liveness_; }
  const std::shared_ptr<HookBoard>& hooks() const { return hooks_; }
  Hub& hub() { return hub_; }
  const AgentConnections& connections() const { return connections_; }
  StateQueries& queries() { return queries_; }
  Membership& membership() { return membership_; }

 private:
  AgentConnections::Events connection_events();
  void check_joined();
  void received(uint32_t rank, const Message& message);
  void changed(uint32_t rank);
  std::string show(std::vector<CommunicatorView> communicators) const;

  ProcessObserver& processes_;
  const Events events_;
  const uint32_t own_;
  bool is_joined_ = false;
  // In the order in which they need each other.
  Liveness liveness_;
  const std::shared_ptr<HookBoard> hooks_ = std::make_shared<HookBoard>();  // shared with registrations
  AgentConnections connections_;
  Suspicion suspicion_;
  Hub hub_;
  StateQueries queries_;
  Membership membership_;
};

}  // namespace banyan::run
