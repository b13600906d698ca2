// OpenSessions: the sessions of this daemon, as the daemons of their peers know them, and what comes for them: lanes
// and texts.
//
// A session is named by the capability of its job, the number of the communicator and its rank. For a lane, the daemon
// of the lower rank calls that of the higher one, and says for which session. To the caller the connection stands from
// then on, so what comes before its session is opened waits here. Daemons shake hands by a secret of their own, which
// tenants never see.
//
// On the thread of the reactor, unless a function says otherwise.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "banyan/run/agent/lane_connector.h"
#include "banyan/run/agent/liveness.h"
#include "banyan/run/agent/transport_connections.h"
#include "banyan/run/join/handshake.h"
#include "banyan/run/join/outgoing_connects.h"
#include "banyan/service/daemon/host_directory.h"
#include "banyan/service/daemon/mesh_messages.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {

// Where a daemon is called.
inline run::ConnectTarget target_at(const HostCard& card) {
  return {.addresses = card.addresses, .port = card.port, .local_address = ""};
}

// The lanes of one session: its connections to the others of its communicator.
class SessionLanes {
 public:
  // `has_strangers`: whether there are callers of this daemon that have still to say who they are.
  SessionLanes(run::Timers& timers, run::OutgoingConnects& connects, std::string communicator,
               std::vector<run::ConnectTarget> targets, std::function<bool()> has_strangers)
      : liveness_(static_cast<uint32_t>(targets.size())),
        connections_(
            timers, connects, liveness_, std::move(communicator), std::move(targets), [](uint32_t, const run::Path&) {},
            std::move(has_strangers)) {}

  const run::Liveness& liveness() const { return liveness_; }  // any thread
  run::TransportConnections& connections() { return connections_; }
  void lose(uint32_t rank);

 private:
  run::Liveness liveness_;
  run::TransportConnections connections_;
};

class OpenSessions {
 public:
  // Of a session: "<capability in hexadecimal>.<communicator>", and its rank.
  using Key = std::pair<std::string, uint32_t>;
  static Key key_of(const OpenSession& open);
  // A name of the communicator for people, from which nobody can tell the capability: a digest.
  static std::string public_id(const std::string& communicator);

  struct Doors {
    std::shared_ptr<SessionLanes> lanes;  // shared with its executor
    std::function<void(const std::string& text)> hear;
    std::function<void(uint64_t rate)> set_rate;  // as in SessionRate
  };

  // When more connections and texts wait for their sessions, the oldest is hung up on, or lost.
  static constexpr size_t kMostEarly = 1024;

  // Throws Error{invalid_usage} when there is such a session already.
  void add(const Key& key, Doors doors);
  // What has come for it before it was there. Once, when it can hear.
  void hand_over(const Key& key);
  void remove(const Key& key);
  // A rank of this session's communicator has ended. Unknown sessions and ranks are ignored.
  void lose(const Key& key, uint32_t rank);
  // Of a caller for "lane". Why it is not let in, if so. Throws Error{invalid_input}.
  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);
  // What is for sessions that have ended is dropped.
  void hear(const SessionText& said);
  // What is for sessions that are not open, too: it is said again.
  void set_rate(const SessionRate& said);

 private:
  static constexpr size_t kEndedRemembered = 1024;
  struct EarlyLane {
    std::string payload;  // of the greeting
    run::Admitted connection;
  };
  using EarlyText = std::string;
  struct Early {
    Key key;
    std::variant<EarlyLane, EarlyText> what;
  };
  bool has_ended(const Key& key) const;
  void keep(Early early);
  static void give(const Doors& doors, EarlyLane& lane);

  std::map<Key, Doors> sessions_;
  std::deque<Early> early_;  // the oldest first
  std::deque<Key> ended_;    // sessions that are no more, the last ones
};

}  // namespace banyan::service
