// Mesh: the messages between the daemons of a cluster, besides the lanes of sessions.
//
// A message arrives once and in order, whatever happens to connections (run/agent/agent_connections.h), or not at all
// when the daemon that it is for ends. Daemons connect with the first message. A daemon is known by its host and its
// *incarnation*, a number that it draws when it begins and that its card shows: what is meant for one that has ended
// never reaches the next one of that host, and numbers of messages begin anew with it. A host may have two daemons
// at a time: its card then names the older one, which carries its sessions to their end.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "banyan/run/agent/agent_connections.h"
#include "banyan/run/agent/socket_dialer.h"
#include "banyan/run/join/handshake.h"
#include "banyan/run/join/outgoing_connects.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/card_cache.h"

namespace banyan::service {

struct DaemonName {
  std::string host;
  uint64_t incarnation = 0;
  auto operator<=>(const DaemonName&) const = default;
};

class Mesh {
 public:
  static constexpr const char* kPurpose = "daemon";  // of greetings

  struct Events {
    std::function<void(const DaemonName& from, const std::string& message)> received;
    // A daemon of that host has ended, or the two have begun anew, and what it has not confirmed is lost. A message to
    // its successor, or in the new round, may follow.
    std::function<void(const std::string& host, const std::string& why)> lost;
  };
  // `own` has been published. All references outlive the mesh.
  Mesh(run::Reactor& reactor, run::OutgoingConnects& connects, CardCache& cards, HostCard own, Events events);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // To the newest daemon of that host, which may be this one. Throws Error{not_found} when none is known to have come,
  // and, as the next two do, Error{unsupported} for a message that is too long (AgentConnections::kMaxMessage).
  void send(const std::string& host, std::string message);
  // To each daemon of that host. Throws the same.
  void send_to_all(const std::string& host, const std::string& message);
  // To this daemon and to no other one of its host. Throws Error{peer_lost} when it is not known any more.
  void send_to_one(const DaemonName& daemon, std::string message);
  // A card was found: messages to daemons of that host that it does not name are lost from now on, and not only when
  // their end is noticed.
  void meet(const HostCard& card);
  // True if a daemon of that host has been found.
  bool knows(const std::string& host) const { return cards_.contains(host); }
  // False while no call to that host's newest daemon comes through; true for those that were never called.
  bool reaches(const std::string& host) const;
  // False for one that has called this daemon from an address that is not on its card: whoever has the secret can call
  // itself as a daemon that it is not.
  bool is_where_its_card_says(const DaemonName& daemon) const;
  // True if the newest daemon of that host is this one.
  bool is_own(const std::string& host) const;
  // Takes the connection of a daemon that calls for kPurpose, or says why not. One that is not known yet waits, while
  // its card is looked for, and is hung up on where that does not name it. Throws Error{invalid_input}.
  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);

 private:
  struct Peer;

  const HostCard& card_of(const std::string& host);
  bool introduce(const DaemonName& caller);
  std::optional<std::string> adopt(const DaemonName& caller, uint64_t round, run::Admitted& connection);
  void send_to(const HostCard& daemon, std::string message);
  Peer& peer_at(const HostCard& daemon, uint64_t round = 0);
  void give_up(const DaemonName& daemon);
  bool begin_anew(const DaemonName& daemon, uint64_t round, const std::string& why);
  void receive_self();
  void record_reach(const DaemonName& daemon, bool is_reached);
  void look_after(const DaemonName& daemon, std::chrono::milliseconds pause);
  void look(const DaemonName& daemon);
  void drop(const DaemonName& daemon, const std::string& why);

  run::Reactor& reactor_;
  run::OutgoingConnects& connects_;
  CardCache& card_cache_;
  const HostCard own_;
  const Events events_;
  std::map<std::string, HostCard> cards_;  // by host: the last that was found, this host's too
  std::map<DaemonName, std::unique_ptr<Peer>> peers_;
  size_t strangers_ = 0;  // that wait
  std::deque<std::string> to_self_;
  std::optional<run::Reactor::Timer> next_to_self_;
};

}  // namespace banyan::service
