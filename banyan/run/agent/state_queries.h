// StateQueries: questions to other ranks about what their communicators do, and requests that they write it down.
//
// They travel by way of the hub, so that a rank that asks needs no connection to every other one. If the hub does not
// help, the rank asks the others directly, at half the time it has.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/agent/agent_connections.h"
#include "banyan/run/agent/hooks.h"
#include "banyan/run/agent/hub.h"
#include "banyan/run/agent/liveness.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/timers.h"

namespace banyan::run {

// On the thread of the timers.
class StateQueries {
 public:
  using Done = std::function<void(std::vector<PeerReport> by_rank)>;

  StateQueries(Timers& timers, AgentConnections& connections, const Hub& hub, const Liveness& liveness,
               HookBoard& hooks, uint32_t own);
  StateQueries(const StateQueries&) = delete;
  StateQueries& operator=(const StateQueries&) = delete;

  // `done` is called at the deadline, or before, perhaps before ask() returns.
  void ask(uint64_t communicator, TimeSource::TimePoint deadline, Done done);
  void broadcast(uint64_t communicator, const std::string& reason);

  // The state of some rank has changed.
  void changed();
  // False when the message is of a kind that is not for queries. Throws Error{invalid_input}.
  bool received(uint32_t rank, const Message& message);

 private:
  struct Query {
    uint64_t communicator = 0;
    std::vector<PeerReport> reports;
    std::set<uint32_t> pending;
    Done done;
    Alarm direct_timer, end_timer;
  };
  struct Broadcast {
    uint64_t communicator = 0;
    std::string reason;
    Alarm timer;  // until the hub has taken it
  };

  void ask_directly(uint64_t number);
  void finish_if_done(uint64_t number);
  void finish(uint64_t number);
  void broadcast_directly(uint64_t number, uint64_t communicator, const std::string& reason);
  void received_ask(uint32_t rank, const Message& message);
  void received_answer(const Message& message);
  void received_broadcast(uint32_t rank, const Message& message);
  Message answer_to(uint32_t asker, uint64_t number, uint64_t communicator);
  std::vector<uint32_t> others() const;

  Timers& timers_;
  AgentConnections& connections_;
  const Hub& hub_;
  const Liveness& liveness_;
  HookBoard& hooks_;
  uint32_t own_;
  std::map<uint64_t, Query> queries_;
  std::map<uint64_t, Broadcast> broadcasts_;
  std::deque<std::pair<uint32_t, uint64_t>> seen_broadcasts_;  // may come by two ways
  uint64_t next_number_ = 0;
};

}  // namespace banyan::run
