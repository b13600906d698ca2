// Upgrade: how this daemon takes the place of an older one of its host, and how a newer one takes its place
// (succession.h has the exchange between the two). The sockets at which programs and operators come in change hands.
// They stay open here beside the copies that are listened at. Paths of the daemon's own are unlinked by whoever has
// them last.
//
// While a newer daemon takes over, programs wait at the door, operators at theirs, and no session is opened. Once it
// serves, this daemon has no door, obeys it, and ends with its last session. If it fails, all goes on as before.
//
// 1. There is one successor at a time, and none begins while an older daemon lives.
// 2. Nobody is let in and no wish for a session is taken from the successor's "ready" on, until it has failed.
// 3. The asker for an upgrade gets one answer: when the successor serves, or has failed before.
//
// On the reactor's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "banyan/service/daemon/client_side.h"
#include "banyan/service/daemon/door.h"
#include "banyan/service/daemon/succession.h"

namespace banyan::service {

class Upgrade {
 public:
  // All outlive it. `sockets`: those that were handed to this daemon.
  Upgrade(SessionOpener& opener, OperatorSide& operators, ClientSide& programs, HandedSockets sockets);

  // Listens for programs, and for operators, where there is no socket for that yet. Throws what listen_at() and
  // listen_on() throw.
  void open_tenants();
  void open_operators();
  const HandedSockets& sockets() const { return own_.sockets; }
  // At the daemon's end.
  void unlink() const;

  // As the newer one: takes the older one's sockets, and returns it as cards name it. Before the cluster begins.
  OlderDaemon inherit(Predecessor& predecessor);

  // As the older one: has a newer one started. Throws Error{invalid_usage} where that cannot be now,
  // Error{unsupported}, Error{io}.
  void begin(HostOperations::Upgraded done);
  // Ends the reactor once a newer daemon serves and the last session here has ended. Now and then.
  void end_if_idle();

 private:
  void forget_older();
  void hand_over();
  void succeed(const HostCard& card);
  void be_left_alone();
  void fail(const std::string& why);
  run::FileDescriptor own_socket(const std::string& path, DoorKind kind) const;

  SessionOpener& opener_;
  ClusterSide& cluster_;
  DaemonCore& core_;
  OperatorSide& operators_;
  ClientSide& programs_;
  Inheritance own_;                   // for a newer daemon; `older` is this one, once it hands over
  std::optional<ElderDaemon> older_;  // while it lives
  std::unique_ptr<Successor> successor_;
  HostOperations::Upgraded upgraded_;  // who waits for it
};

}  // namespace banyan::service
