// Mesh: what the daemons of a cluster tell each other, besides the lanes of sessions.
//
// A message arrives once and in order, whatever happens to connections (run/agent/agent_connections.h), or not at all
// when the daemon that it is for ends. Daemons connect with the first message. A daemon is known by its host and its
// *incarnation*, a number that it draws when it begins and that its card shows: what is meant for one that has ended
// never reaches the next one of that host, and numbers of messages begin anew with it.
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
#include "banyan/service/daemon/host_directory.h"

namespace banyan::service {

class Mesh {
 public:
  static constexpr const char* kPurpose = "daemon";  // of greetings

  struct Events {
    std::function<void(const std::string& host, const std::string& message)> received;
    // The daemon of that host has ended, and what it has not confirmed is lost. A message to its successor may follow.
    std::function<void(const std::string& host, const std::string& why)> lost;
  };
  // `own` has been published. All references outlive the mesh.
  Mesh(run::Reactor& reactor, run::OutgoingConnects& connects, HostDirectory& directory, HostCard own, Events events);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // To this daemon, too. Throws Error{not_found} when no daemon of that host has come, and what the directory throws.
  void send(const std::string& host, std::string message);
  // A card was found: what is said to an earlier daemon of that host is lost from now on, and not when that is noticed.
  void meet(const HostCard& card);
  // False while no call to that host's daemon comes through; true for those that were never called.
  bool reaches(const std::string& host) const;
  // Takes the connection of a daemon that calls for kPurpose, or says why not. Throws Error{invalid_input}.
  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);

 private:
  struct Peer;

  Peer& make_peer(const HostCard& card);
  void hear_self();
  void note_reach(const std::string& host, bool is_reached);
  void look_after(const std::string& host, std::chrono::milliseconds pause);
  void look(const std::string& host);
  void drop(const std::string& host, const std::string& why);

  run::Reactor& reactor_;
  run::OutgoingConnects& connects_;
  HostDirectory& directory_;
  const HostCard own_;
  const Events events_;
  std::map<std::string, std::unique_ptr<Peer>> peers_;  // by host
  std::deque<std::string> to_self_;
  std::optional<run::Reactor::Timer> next_to_self_;
};

}  // namespace banyan::service
