// SessionOpener: opens and closes the sessions of clients, and gives them what the rules grant.
//
// A session is opened in steps. First the daemons of its hosts are looked for. Then the source of its plans is made, on
// a thread of its user: for many ranks that takes long. Then it gets what the rules grant, and lanes. Then its worker
// makes it. It may be closed, and its client may go, between any two of these steps. Quotas are charged at the first.
//
// A session that is refused tells the other ranks of its communicator, which would wait in vain. None is opened while
// the operator drains this host, or once a newer daemon takes the place of this one.
//
// 1. A wish is answered once, unless its client has gone or has closed the session before.
// 2. A session is opened once for each wish, and its quotas are charged from the wish on until it is refused or closed,
//    or its client has gone.
// 3. Two sessions of one key are never open here at a time.
//
// On the reactor's thread, unless a function says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "banyan/service/daemon/cluster_side.h"
#include "banyan/service/session/client_table.h"
#include "banyan/service/session/session_opening.h"

namespace banyan::service {

class SessionOpener {
 public:
  // All outlive it.
  SessionOpener(DaemonCore& core, ClusterSide& cluster, ClientTable& clients)
      : core_(core), cluster_(cluster), clients_(clients) {}

  // A client's wishes; it has said hello. The client is told how they go.
  void open(uint64_t number, Client& client, const OpenSession& wish);
  void close(Client& client, const CloseSession& close);
  void lose(const Client& client, const RankGone& gone);
  // Its client has gone, and its worker has let go of it.
  void forget(const Client& client);

  DaemonCore& core() { return core_; }
  ClusterSide& cluster() { return cluster_; }
  ClientTable& clients() { return clients_; }
  OpenSessions& sessions() { return sessions_; }
  uint64_t opened() const { return opened_; }  // so far

  // Sessions are the newer daemon's to open, or are not any more.
  void hand_over(bool hands_over);
  bool is_handing_over() const { return is_handing_over_; }

 private:
  // A session that is being opened. Shared by tasks, since a task can be copied.
  struct Opening {
    uint64_t client = 0, mark = 0;
    SessionOpening session;
    std::optional<Error> failure;
  };
  ClientSession* session_of(const Opening& opening);
  void send_refusal(const OpenSession& wish, const Error& error, uint32_t user);
  void refuse(const Opening& opening, const Error& error);
  void take_back(const Opening& opening);
  std::vector<HostCard> cards_of(const OpenSession& open) const;
  void plan(const std::shared_ptr<Opening>& opening);
  void open_planned(const std::shared_ptr<Opening>& opening);
  void grant(const Client& client, ClientSession& session, SessionOpening& opening) const;
  void connect(Opening& opening, const Client& client, ClientSession& session);
  void open_on_worker(const std::shared_ptr<Opening>& opening, WorkerClient& memory);
  std::function<void(const std::string& text)> sender_of(const OpenSession& open, uint32_t user);

  DaemonCore& core_;
  ClusterSide& cluster_;
  ClientTable& clients_;
  OpenSessions sessions_;
  uint64_t next_mark_ = 1, opened_ = 0;
  bool is_handing_over_ = false;
  // Sessions that their workers have still to let go of; those that are to be opened then, in their place.
  std::map<OpenSessions::Key, std::vector<std::shared_ptr<Opening>>> closing_;
};

}  // namespace banyan::service
