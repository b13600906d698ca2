// Daemon::Impl: its parts in one place. daemon.cc has what concerns other daemons and operators, daemon_clients.cc what
// concerns clients and their sessions.
//
// On the reactor's thread, unless a function says otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/join/acceptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/card_cache.h"
#include "banyan/service/cluster/host_directory.h"
#include "banyan/service/cluster/mesh.h"
#include "banyan/service/daemon/client_door.h"
#include "banyan/service/daemon/daemon.h"
#include "banyan/service/daemon/door.h"
#include "banyan/service/daemon/sub_ids.h"
#include "banyan/service/daemon/succession.h"
#include "banyan/service/daemon/user_names.h"
#include "banyan/service/http/shared_answers.h"
#include "banyan/service/operate/direct_ranks.h"
#include "banyan/service/operate/event_log.h"
#include "banyan/service/operate/hint_service.h"
#include "banyan/service/operate/host_answers.h"
#include "banyan/service/operate/host_operations.h"
#include "banyan/service/operate/obedience.h"
#include "banyan/service/operate/operator_api.h"
#include "banyan/service/operate/route_advice.h"
#include "banyan/service/operate/rule_book.h"
#include "banyan/service/operate/slow_link_watch.h"
#include "banyan/service/operate/steward_link.h"
#include "banyan/service/session/client_connection.h"
#include "banyan/service/session/open_sessions.h"
#include "banyan/service/session/peer_cards.h"
#include "banyan/service/session/session_opening.h"
#include "banyan/service/session/tenant_quota.h"
#include "banyan/service/session/tenant_threads.h"
#include "banyan/service/session/worker_watch.h"
#include "banyan/service/session/workers.h"

namespace banyan::service {

// This host's name for people: BANYAN_HOST_ID, by which several daemons of one machine differ, else its host name.
std::string name_of_host();

class Daemon::Impl {
 public:
  Impl(Options options, HandedSockets sockets, Predecessor* predecessor);
  ~Impl();

  void run();
  void stop() { reactor_.stop(); }
  void reload_rules(Reloaded done) {
    reactor_.mailbox()->post([this, done = std::move(done)] {
      const std::string refusal = apply_rules();
      if (done) done(refusal);
    });
  }
  void watch_workers(std::chrono::microseconds patience, std::function<void()> alive);
  Places places() const {
    return {.tenants = place_of(listening_.tenants),
            .operators = place_of(listening_.operators),
            .http = place_of(listening_.http)};
  }

 private:
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
  };

  using Descriptor = std::optional<run::FileDescriptor>;  // is closed where it is not taken

  bool is_known(uint32_t user);
  void know(uint32_t user, std::function<void()> then);
  void welcome(ClientDoor::Guest guest);
  void heard(uint64_t number, const ClientMessage& message, Descriptor& descriptor);
  void drop(uint64_t number, const std::string& why);
  Client& greeted(uint64_t number);
  HintService::Asker asker_of_hints(uint64_t number);
  void note(TenantAccount& account, std::string words);
  std::chrono::nanoseconds pause_of(const Client& client) const;
  std::function<void(run::FileDescriptor)> closer_for(const std::shared_ptr<TenantAccount>& account) const;
  std::function<void(std::function<void()> task)> later_for(const TenantAccount& account) const;

  // Called with the result of a look at memory, on the reactor's thread; an Error of `found` goes to `refused`, too.
  // Neither is called if the client has gone meanwhile.
  struct Look {
    std::function<void(Client&, Region)> found;
    std::function<void(const Error&)> refused;
  };
  // Looks on a thread of the client's user, which the client can keep waiting for as long as it likes.
  void look_at(uint64_t number, run::FileDescriptor descriptor, uint64_t bytes, Look then);
  void attach(uint64_t number, Client& client, Region doorbell);
  void greet(Client& client, const Hello& hello);

  void act(uint64_t number, const Hello& hello, Descriptor& descriptor);
  void act(uint64_t number, const OfferRegion& offer, Descriptor& descriptor);
  void act(uint64_t number, const WithdrawRegion& withdraw, Descriptor& descriptor);
  void act(uint64_t number, const OpenSession& open, Descriptor& descriptor);
  void act(uint64_t number, const CloseSession& close, Descriptor& descriptor);
  void act(uint64_t number, const RankGone& gone, Descriptor& descriptor);
  void act(uint64_t number, const AskHints& ask, Descriptor& descriptor);
  void act(uint64_t number, const ShowRecord& show, Descriptor& descriptor);
  void act(uint64_t number, const HideRecord& hide, Descriptor& descriptor);

  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);
  void hear(const DaemonName& from, const std::string& message);
  // Has `task` done at once and after every `pause`.
  void every(std::chrono::microseconds pause, const std::function<void()>& task) {
    reactor_.after({}, [this, pause, task] { go_on(pause, task); });
  }
  void go_on(std::chrono::microseconds pause, const std::function<void()>& task) {
    reactor_.after(pause, [this, pause, task] { go_on(pause, task); });
    task();
  }
  std::string apply_rules();
  void tell_terms();
  void wait_for_address(const std::string& address) const;
  void tell_state();
  run::FileDescriptor own_socket(const std::string& path, DoorKind kind, bool is_for_all_users) const;
  void inherit(Predecessor& predecessor, HandedSockets& sockets);
  void forget_older();
  void upgrade(HostOperations::Host::Upgraded done);
  void hand_over();
  void succeed(const HostCard& card);
  void be_left_alone();
  void fail_to_upgrade(const std::string& why);
  void end_if_idle();
  // Publishes this daemon's card, and takes calls of other daemons from then on.
  void open_to_daemons(Predecessor* predecessor, HandedSockets& sockets);
  void open_to_operators(const std::string& node, HandedSockets& sockets);
  void serve_operators(HandedSockets& sockets);
  HostView describe(const std::string& node);
  void note_shortage(const std::string& why);
  std::vector<KnownSession> known_sessions() const;
  std::vector<std::shared_ptr<WorkerClient>> attached() const;
  std::optional<RouteAdvice::Place> rank0_of(const std::string& communicator) const;
  std::function<void(const std::string& text)> teller_of(const OpenSession& open, uint32_t user);

  std::vector<HostCard> cards_of(const OpenSession& open) const;
  static std::string tenant_of(const Client& client, const std::string& name);
  Grant granted(const OpenSession& wish, const Subject& subject, const std::string& tenant);
  // A session that is being opened. Shared by tasks, since a task can be copied.
  struct Opening {
    uint64_t client = 0, mark = 0;
    SessionOpening session;
    std::optional<Error> failure;
  };
  ClientSession* session_of(const Opening& opening);
  void tell_refusal(const OpenSession& wish, const Error& error, uint32_t user);
  void refuse(const Opening& opening, const Error& error);
  void plan(const std::shared_ptr<Opening>& opening);
  void open_planned(const std::shared_ptr<Opening>& opening);
  void grant_and_connect(uint64_t number, ClientSession& session, SessionOpening& opening);
  OpenSessions::Doors doors_of(const Client& client, const SessionOpening& opening);
  void open_on_worker(const std::shared_ptr<Opening>& opening, WorkerClient& memory);
  void take_back(const Opening& opening);
  // From a worker's thread.
  void say_later(uint64_t number, DaemonMessage message);

  const Options options_;
  const std::string host_;
  const SessionMaker maker_;
  run::Reactor reactor_;
  run::OutgoingConnects connects_;
  OpenSessions sessions_;
  RuleBook rules_;
  EventLog events_;
  std::map<std::string, uint64_t> refused_;  // by reason
  bool is_draining_ = false;
  std::string told_state_ = kServing;
  // The last shortage of descriptors (or of memory of the kernel), for which a program was not let in.
  struct Shortage {
    run::Reactor::TimePoint at;
    std::string why;
  };
  std::optional<Shortage> shortage_;
  CardCache cards_;
  std::optional<Mesh> mesh_;
  std::optional<StewardLink> steward_;  // none without a fabric
  std::optional<RouteAdvice> routes_;   // the same
  TenantAccounts accounts_;
  const std::shared_ptr<TenantThreads> threads_;  // shared with executors, which plan there
  UserNames names_;
  SubIds sub_ids_;
  bool unlinks_tenants_, unlinks_operators_;  // at its end
  HostCard own_;
  std::optional<ElderDaemon> older_;  // none once a newer one serves
  HandedSockets listening_;           // for a successor: copies
  std::optional<ClientDoor> door_;
  std::unique_ptr<run::Acceptor> acceptor_;  // null once a newer daemon has served and ended
  std::map<uint64_t, Client> clients_;
  DirectRanks direct_;
  uint64_t next_client_ = 1, next_opening_ = 1;
  // Sessions that their workers have still to let go of; those that are to be opened then, in their place.
  std::map<OpenSessions::Key, std::vector<std::shared_ptr<Opening>>> closing_;
  uint64_t opened_ = 0;  // sessions, so far
  std::optional<HostOperations> operations_;
  std::optional<HostAnswers> host_answers_;
  std::optional<Obedience> obedience_;
  std::optional<OperatorApi> operators_;
  std::optional<SlowLinkWatch> slow_links_;  // none without a fabric
  std::optional<HintService> hints_;
  std::optional<HttpServer> http_;
  std::unique_ptr<Successor> successor_;
  HostOperations::Host::Upgraded upgraded_;  // who waits for it
  bool is_handing_over_ = false;             // what is to be opened is the successor's
  const run::Reactor::TimePoint began_;
  std::vector<WorkerWatch> watches_;  // of all workers, or of none
  Workers workers_;                   // the last, so that they end first
};

}  // namespace banyan::service
