// OpenSessions: the sessions of this daemon, as the daemons of their peers know them, and what comes for them: lanes
// and texts.
//
// A session is named by the capability of its job, the number of the communicator and its rank. For a lane, the daemon
// of the lower rank calls that of the higher one, and says for which session. To the caller the connection stands from
// then on, so what comes before its session is opened waits here, but not where another daemon of this host is known to
// have that session: then the caller is refused, and calls there (peer_cards.h). Daemons shake hands by a secret of
// their own, which tenants never see.
//
// On the thread of the reactor, unless a function says otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/agent/lane_connector.h"
#include "banyan/run/agent/liveness.h"
#include "banyan/run/agent/transport_connections.h"
#include "banyan/run/join/handshake.h"
#include "banyan/run/join/outgoing_connects.h"
#include "banyan/service/cluster/host_directory.h"
#include "banyan/service/cluster/mesh_messages.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/service/session/early_box.h"

namespace banyan::service {

// The target of connections to a daemon.
inline run::ConnectTarget target_at(const HostCard& card) {
  return {.addresses = card.addresses, .port = card.port, .local_address = "", .name = card.host};
}

// The lanes of one session: its connections to the others of its communicator.
class SessionLanes {
 public:
  // `communicator`: as callers name it, see OpenSessions::called(). `has_strangers`: whether there are callers of this
  // daemon that have still to say who they are.
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
  // "<capability in hexadecimal>.<communicator>".
  static std::string id_of(const Capability& capability, uint64_t communicator);
  // Names a session: the id of its communicator, and its rank.
  using Key = std::pair<std::string, uint32_t>;
  static Key key_of(const OpenSession& open);
  // A name of the communicator for people, from which nobody can tell the capability: a digest.
  static std::string public_id(const std::string& communicator);
  // The name that the lanes of a user's session send first to the daemon that they call: the communicator, and the user
  // for whom it is (early_box.h).
  static std::string called(const std::string& communicator, uint32_t user) {
    return communicator + "@" + std::to_string(user);
  }

  struct Doors {
    std::shared_ptr<SessionLanes> lanes;  // shared with its executor
    std::function<void(const std::string& text)> receive;
    std::function<void(uint64_t rate)> set_rate;  // as in SessionRate
    std::function<void(const Error& why)> fail;
  };

  // Throws Error{invalid_usage} when there is such a session already, and why another rank was refused, if one was.
  void add(const Key& key, Doors doors);
  // Gives the session what has come for it before it was there. To be called once, as soon as it can receive.
  void hand_over(const Key& key);
  void remove(const Key& key);
  // A session that was wished for is not opened: what has come for it is dropped, and what comes later is turned away,
  // unless there is another session of this key. True if that is news to the other ranks, of which none was refused
  // before.
  bool refuse(const Key& key);
  // A rank of this session's communicator has ended. Unknown sessions and ranks are ignored.
  void lose(const Key& key, uint32_t rank);
  // Admits a caller for "lane". Returns why it is not let in, if so. Throws Error{invalid_input}.
  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);
  // A text for a session that has ended is dropped.
  void receive(const SessionText& said);
  // The rank of another host was refused: ends the sessions of its communicator, and has them refused that come later.
  void receive(const SessionRefusal& said);
  // A rate for a session that is not open is dropped, too: it is sent again.
  void set_rate(const SessionRate& said);
  // From now on no others begin than those that are open and `coming`, so nothing waits for others: a newer daemon of
  // this host has them.
  void end_with(std::set<Key> coming) { coming_ = std::move(coming); }
  // That does not hold any more: no newer daemon has come.
  void go_on() { coming_.reset(); }
  // The sessions that the older daemon of this host has.
  void know_elsewhere(std::set<Key> sessions) { elsewhere_ = std::move(sessions); }
  // Forgets what waits for a session in vain. Now and then.
  void sweep() { early_.sweep(std::chrono::steady_clock::now()); }
  size_t early() const { return early_.size(); }

 private:
  static constexpr size_t kEndedRemembered = 1024;
  void keep(EarlyBox::Item item) { early_.keep(std::move(item), std::chrono::steady_clock::now()); }
  bool may_come(const Key& key) const {
    return !ended_.contains(key) && !elsewhere_.contains(key) && (!coming_ || coming_->contains(key));
  }
  static void give(const Doors& doors, EarlyBox::Lane& lane);
  void record_ended(const Key& key);

  std::map<Key, Doors> sessions_;
  EarlyBox early_;
  std::set<Key> ended_;  // sessions that are no more, the last ones
  std::optional<std::set<Key>> coming_;
  std::set<Key> elsewhere_;
  std::deque<Key> in_their_order_;  // in which they ended; maybe some that have begun again
};

}  // namespace banyan::service
