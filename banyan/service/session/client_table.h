// ClientTable: the programs that are attached, by number, and their sessions. No number is used twice.
//
// On the reactor's thread, unless a function says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/session/client_connection.h"
#include "banyan/service/session/open_sessions.h"
#include "banyan/service/session/tenant_quota.h"
#include "banyan/service/session/worker.h"
#include "banyan/service/view/host_view.h"

namespace banyan::service {

struct ClientSession {
  OpenSessions::Key key;
  uint64_t mark = 0;        // of this opening: its number may be used again
  bool is_open = false;     // else its plans are being seen to
  Subject subject = {};     // as rules know it
  std::string tenant = {};  // to which its share belongs
  TenantAccount::Charge session_charge = {}, ranks_charge = {};
};

struct Client {
  std::unique_ptr<ClientConnection> connection;
  std::shared_ptr<TenantAccount> account;  // shared with all that its user has
  TenantAccount::Charge charge;            // of the connection
  std::optional<run::Reactor::Timer> hello_by;
  bool has_said_hello = false;
  std::shared_ptr<WorkerClient> memory;        // shared with its worker; null until its doorbell was looked at
  RankView view;                               // who it is, for operators
  std::map<uint32_t, ClientSession> sessions;  // by number

  // The tenant that it means by this name: nobody is taken for another user's.
  std::string tenant_called(const std::string& name) const;
};

// A session that is open.
struct KnownSession {
  SessionPlace place;
  uint32_t rank = 0;
  std::string id;      // of the communicator, for people
  Subject subject;     // as rules know it
  std::string tenant;  // to which its share belongs
};

class ClientTable {
 public:
  // `reactor` outlives it.
  explicit ClientTable(run::Reactor& reactor) : reactor_(reactor) {}

  // For the next add().
  uint64_t next_number() const { return next_number_; }
  void add(Client client) { clients_.emplace(next_number_++, std::move(client)); }
  // Null: there is none of this number.
  std::shared_ptr<Client> take_out(uint64_t number);
  Client* find(uint64_t number);
  Client& at(uint64_t number) { return clients_.at(number); }
  const std::map<uint64_t, Client>& clients() const { return clients_; }
  // Sends it a message if it is still there. Any thread.
  void send_later(uint64_t number, DaemonMessage message);

  // The parts of clients that workers have, of those that have said hello.
  std::vector<std::shared_ptr<WorkerClient>> attached() const;
  // O(sessions), as what follows.
  using Act = std::function<void(const Client& client, uint32_t number, const ClientSession& session)>;
  void each_session(const Act& act) const;
  std::set<OpenSessions::Key> keys() const;
  // Those that are open.
  std::vector<KnownSession> open_sessions() const;
  // The session of rank 0 of a communicator, if it is here.
  std::optional<SessionPlace> rank0_of(const std::string& communicator) const;

 private:
  run::Reactor& reactor_;
  std::map<uint64_t, Client> clients_;
  uint64_t next_number_ = 1;
};

}  // namespace banyan::service
