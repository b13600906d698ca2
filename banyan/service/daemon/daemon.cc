#include "banyan/service/daemon/daemon.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/join/acceptor.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/join/network.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/reactor.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/daemon/client_connection.h"
#include "banyan/service/daemon/door.h"
#include "banyan/service/daemon/event_log.h"
#include "banyan/service/daemon/host_directory.h"
#include "banyan/service/daemon/host_operations.h"
#include "banyan/service/daemon/mesh.h"
#include "banyan/service/daemon/mesh_messages.h"
#include "banyan/service/daemon/open_sessions.h"
#include "banyan/service/daemon/operator_desk.h"
#include "banyan/service/daemon/peer_cards.h"
#include "banyan/service/daemon/route_desk.h"
#include "banyan/service/daemon/rule_book.h"
#include "banyan/service/daemon/session_opening.h"
#include "banyan/service/daemon/steward_desk.h"
#include "banyan/service/daemon/worker.h"

namespace banyan::service {
namespace {

constexpr std::chrono::milliseconds kHandshakeTime{10'000};
// All sessions of a communicator say the same to each other's daemons.
constexpr uint64_t kGroup = 1;

void fill_randomly(void* bytes, size_t count) {
  if (getrandom(bytes, count, 0) != static_cast<ssize_t>(count)) throw run::system_error("cannot get random numbers");
}
Capability new_capability() {
  Capability capability;
  fill_randomly(capability.data(), capability.size());
  return capability;
}
uint64_t new_incarnation() {
  uint64_t incarnation = 0;
  fill_randomly(&incarnation, sizeof incarnation);
  return incarnation;
}

// For people: as BANYAN_HOST_ID says, by which several daemons of one machine differ.
std::string name_of_host() {
  const char* const name = std::getenv("BANYAN_HOST_ID");
  return name == nullptr || *name == '\0' ? run::host_name() : name;
}

SessionMaker maker_for(const Daemon::Options& options) {
  SessionMaker maker{.files = compose::read_files(options.planner), .is_oversubscribed = options.is_oversubscribed};
  std::vector<double> capacities = compose::link_bandwidths(*maker.files);
  for (double& capacity : capacities) capacity *= options.payload;
  if (!capacities.empty()) maker.capacities = std::make_shared<const std::vector<double>>(std::move(capacities));
  return maker;
}

}  // namespace

class Daemon::Impl {
 public:
  Impl(Options options, HandedSockets sockets);
  ~Impl();

  void run();
  void stop() { reactor_.stop(); }
  void reload_rules(Reloaded done) {
    reactor_.mailbox()->post([this, done = std::move(done)] {
      const std::string refusal = apply_rules();
      if (done) done(refusal);
    });
  }
  void every(std::chrono::microseconds pause, const std::function<void()>& task) {
    reactor_.after({}, [this, pause, task] { go_on(pause, task); });
  }

 private:
  struct ClientSession {
    OpenSessions::Key key;
    Subject subject;     // as rules know it
    std::string tenant;  // to which its share belongs
  };
  struct Client {
    std::unique_ptr<ClientConnection> connection;
    std::shared_ptr<WorkerClient> memory;        // shared with the worker; null before its hello
    RankView view;                               // who it is, for operators
    std::map<uint32_t, ClientSession> sessions;  // by number
  };

  void welcome();
  void heard(uint64_t number, const ClientMessage& message, std::optional<run::FileDescriptor> descriptor);
  void drop(uint64_t number, const std::string& why);
  Client& greeted(uint64_t number);

  void act(uint64_t number, const Hello& hello, std::optional<run::FileDescriptor> descriptor);
  void act(uint64_t number, const OfferRegion& offer, std::optional<run::FileDescriptor> descriptor);
  void act(uint64_t number, const WithdrawRegion& withdraw, const std::optional<run::FileDescriptor>& descriptor);
  void act(uint64_t number, const OpenSession& open, const std::optional<run::FileDescriptor>& descriptor);
  void act(uint64_t number, const CloseSession& close, const std::optional<run::FileDescriptor>& descriptor);
  void act(uint64_t number, const RankGone& gone, const std::optional<run::FileDescriptor>& descriptor);

  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);
  void hear(const std::string& host, const std::string& message);
  void go_on(std::chrono::microseconds pause, const std::function<void()>& task) {
    reactor_.after(pause, [this, pause, task] { go_on(pause, task); });
    task();
  }
  std::string apply_rules();
  void tell_terms();
  void open_to_operators(const std::string& node, HandedSockets& sockets);
  HostView describe(const std::string& node);
  std::vector<KnownSession> known_sessions() const;
  std::optional<RouteDesk::Place> rank0_of(const std::string& communicator) const;
  std::function<void(const std::string& text)> teller_of(const OpenSession& open);

  std::vector<HostCard> cards_of(const OpenSession& open);
  static std::string tenant_of(const Client& client, const OpenSession& open);
  Grant granted(const OpenSession& wish, const Subject& subject, const std::string& tenant);
  void open_on_worker(uint64_t number, SessionOpening& opening, WorkerClient& memory);
  // From the worker's thread.
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
  const std::unique_ptr<HostDirectory> directory_;
  PeerCards peer_cards_;
  std::optional<Mesh> mesh_;
  std::optional<StewardDesk> steward_;  // none without a fabric
  std::optional<RouteDesk> routes_;     // the same
  const bool is_door_handed_;
  const run::FileDescriptor door_;
  std::unique_ptr<run::Acceptor> acceptor_;
  std::map<uint64_t, Client> clients_;
  uint64_t next_client_ = 1;
  std::optional<HostOperations> operations_;
  std::optional<OperatorDesk> operators_;
  std::optional<HttpServer> http_;
  const run::Reactor::TimePoint began_;
  Worker worker_;  // the last, so that it ends first
};

Daemon::Impl::Impl(Options options, HandedSockets sockets)
    : options_(std::move(options)),
      host_(options_.host.empty() ? run::own_host_id() : options_.host),
      maker_(maker_for(options_)),
      connects_(reactor_, options_.secret, kHandshakeTime),
      rules_(options_.rules),
      events_(name_of_host()),
      directory_(HostDirectory::at(options_.world)),
      peer_cards_(*directory_, [this](const HostCard& card) { mesh_->meet(card); }),
      is_door_handed_(sockets.tenants.is_open()),
      door_(is_door_handed_ ? std::move(sockets.tenants)
                            : listen_at(options_.socket, DoorKind::tenants, options_.is_for_all_users)),
      began_(reactor_.now()),
      worker_(options_.is_oversubscribed) {
  std::vector<std::string> addresses = {options_.address};
  if (options_.address.empty()) {
    addresses = options_.secret.is_empty() ? std::vector<std::string>{"127.0.0.1"} : run::outward_addresses();
  }
  // Connections along routes come to the addresses of these.
  const bool has_one = addresses.size() == 1 && (options_.planner.routes.empty() || options_.secret.is_empty());
  run::Listener listener = run::Listener::on(has_one ? addresses.front() : run::any_address_like(addresses));
  const HostCard own{.host = host_,
                     .incarnation = new_incarnation(),
                     .name = name_of_host(),
                     .node = options_.node.empty() ? run::host_name() : options_.node,
                     .addresses = std::move(addresses),
                     .port = listener.port()};
  directory_->publish(own);
  mesh_.emplace(
      reactor_, connects_, *directory_, own,
      Mesh::Events{.received = [this](const std::string& host, const std::string& message) { hear(host, message); },
                   .lost =
                       [this](const std::string& host, const std::string& why) {
                         events_.note("the daemon of host " + in_quotes(host) + " is lost: " + why);
                       }});
  if (maker_.capacities) {
    steward_.emplace(reactor_, *directory_, *mesh_, host_, Steward::Options{.capacities = *maker_.capacities},
                     [this](const Activity& activity) { routes_->note(activity); });
    routes_.emplace(RouteDesk::Parts{
        .reactor = reactor_,
        .worker = worker_,
        .links = {.bandwidths = compose::link_bandwidths(*maker_.files), .cables = compose::link_cables(*maker_.files)},
        .capacities = *maker_.capacities,
        .tell = [this](const std::string& host, const SessionView& view) { mesh_->send(host, encode(view)); },
        .rank0 = [this](const std::string& communicator) { return rank0_of(communicator); }});
  }
  acceptor_ = std::make_unique<run::Acceptor>(
      reactor_, std::move(listener), options_.secret, run::Acceptor::Options{},
      [this](const run::Greeting& greeting, run::Admitted& admitted) { return admit(greeting, admitted); });
  reactor_.watch(door_.get(), EPOLLIN, [this](uint32_t) { welcome(); });
  open_to_operators(own.node, sockets);
}

Daemon::Impl::~Impl() {
  if (!is_door_handed_) unlink(options_.socket.c_str());
  if (!options_.operators.empty()) unlink(options_.operators.c_str());
  reactor_.forget(door_.get());
}

void Daemon::Impl::run() {
  reactor_.run([](const Error& error) { BANYAN_LOG(warning) << "the service goes on after: " << error.what(); });
}

// ---- Other daemons ----

std::optional<std::string> Daemon::Impl::admit(const run::Greeting& greeting, run::Admitted& connection) {
  if (greeting.purpose == "lane") return sessions_.admit(greeting, connection);
  if (greeting.purpose == Mesh::kPurpose) return mesh_->admit(greeting, connection);
  return "a daemon called for '" + greeting.purpose.substr(0, 32) + "'";
}

// What is wrong with it is no trouble of the connection that brought it.
void Daemon::Impl::hear(const std::string& host, const std::string& message) {
  try {
    const MeshMessage said = decode_mesh_message(message);
    if (const auto* const text = std::get_if<SessionText>(&said)) {
      sessions_.hear(*text);
    } else if (const auto* const rate = std::get_if<SessionRate>(&said)) {
      sessions_.set_rate(*rate);
    } else if (const auto* const question = std::get_if<OperatorQuestion>(&said)) {
      operators_->hear(host, *question);
    } else if (const auto* const answer = std::get_if<OperatorAnswer>(&said)) {
      operators_->hear(host, *answer);
    } else if (const auto* const view = std::get_if<SessionView>(&said)) {
      if (routes_) routes_->hear(*view);
    } else if (steward_) {
      steward_->hear(std::get<Activity>(said));
    }
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "what the daemon of host " << in_quotes(host) << " says is not understood: " << error.what();
  }
}

// From the worker's thread.
std::function<void(const std::string&)> Daemon::Impl::teller_of(const OpenSession& open) {
  return [this, communicator = OpenSessions::key_of(open).first, members = members_of(open)](const std::string& text) {
    reactor_.mailbox()->post([this, communicator, members, text] {
      for (const RanksOnHost& member : members) {
        mesh_->send(member.host,
                    encode(SessionText{.communicator = communicator, .ranks = member.ranks, .text = text}));
      }
    });
  };
}

// ---- Clients come and go ----

void Daemon::Impl::welcome() {
  run::FileDescriptor socket(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) return;  // it has gone again, or descriptors are short: epoll tells again
  const uint64_t number = next_client_++;
  Client& client = clients_[number];
  client.connection = std::make_unique<ClientConnection>(
      reactor_, std::move(socket),
      ClientConnection::Hooks{
          .said = [this, number](
                      const ClientMessage& message,
                      std::optional<run::FileDescriptor> descriptor) { heard(number, message, std::move(descriptor)); },
          .gone = [this, number](const std::string& why) { drop(number, why); }});
}

void Daemon::Impl::drop(uint64_t number, const std::string& why) {
  auto node = clients_.extract(number);
  if (node.empty()) return;
  Client& client = node.mapped();
  events_.note("process " + std::to_string(client.connection->identity().process) + " has detached: " + why);
  // Who calls this may be the connection.
  reactor_.mailbox()->post([kept = std::shared_ptr<ClientConnection>(std::move(client.connection))] {});
  if (!client.memory) return;
  // Sessions end on the worker's thread, and before their lanes do.
  worker_.post([this, number, sessions = client.sessions, memory = client.memory] {
    worker_.remove(number);
    memory->remove_all();
    reactor_.mailbox()->post([this, sessions] {
      for (const auto& [each, session] : sessions) sessions_.remove(session.key);
    });
  });
}

Daemon::Impl::Client& Daemon::Impl::greeted(uint64_t number) {
  Client& client = clients_.at(number);
  if (!client.memory) throw Error(ErrorCode::invalid_input, "it has not said hello");
  return client;
}

void Daemon::Impl::heard(uint64_t number, const ClientMessage& message, std::optional<run::FileDescriptor> descriptor) {
  std::visit([&](const auto& said) { act(number, said, std::move(descriptor)); }, message);
}

void Daemon::Impl::say_later(uint64_t number, DaemonMessage message) {
  reactor_.mailbox()->post([this, number, message = std::move(message)] {
    const auto found = clients_.find(number);
    if (found != clients_.end()) found->second.connection->say(message);
  });
}

// ---- What clients say ----

void Daemon::Impl::act(uint64_t number, const Hello& hello, std::optional<run::FileDescriptor> descriptor) {
  Client& client = clients_.at(number);
  if (client.memory) throw Error(ErrorCode::invalid_input, "it says hello twice");
  if (!descriptor) throw Error(ErrorCode::invalid_input, "it says hello without a doorbell");
  if (hello.version == kProtocolVersion) {
    client.memory = std::make_shared<WorkerClient>(*descriptor, RegionTable::Quota());
    worker_.post([this, number, memory = client.memory] { worker_.add(number, memory); });
  }
  const ClientIdentity& who = client.connection->identity();
  events_.note("process " + std::to_string(who.process) + " of user " + std::to_string(who.user) +
               " has attached: " + hello.program);
  client.view = {.host = name_of_host(),
                 .process = static_cast<uint32_t>(who.process),
                 .user = static_cast<uint32_t>(who.user),
                 .program = hello.program};
  // A client of another version reads which one this is.
  client.connection->say(Welcome{.version = kProtocolVersion, .host = host_, .capability = new_capability()},
                         client.memory ? client.memory->event_fd() : -1);
}

void Daemon::Impl::act(uint64_t number, const OfferRegion& offer, std::optional<run::FileDescriptor> descriptor) {
  const Client& client = greeted(number);
  if (!descriptor) throw Error(ErrorCode::invalid_input, "it offers memory without a descriptor");
  const auto file = std::make_shared<run::FileDescriptor>(std::move(*descriptor));
  worker_.post([this, number, offer, file, memory = client.memory] {
    try {
      say_later(number, RegionPlaced{.wish = offer.wish, .place = memory->regions().offer(*file, offer.bytes)});
    } catch (const Error& error) {
      say_later(number, Refused{.wish = offer.wish, .error = error});
    }
  });
}

void Daemon::Impl::act(uint64_t number, const WithdrawRegion& withdraw, const std::optional<run::FileDescriptor>&) {
  worker_.post([this, number, withdraw, memory = greeted(number).memory] {
    try {
      memory->regions().withdraw(withdraw.place);
    } catch (const Error& error) {
      reactor_.mailbox()->post([this, number, why = error.message()] { drop(number, why); });
    }
  });
}

void Daemon::Impl::act(uint64_t number, const CloseSession& close, const std::optional<run::FileDescriptor>&) {
  Client& client = greeted(number);
  const auto node = client.sessions.extract(close.session);
  if (node.empty()) return;  // its opening was refused
  worker_.post([this, close, key = node.mapped().key, memory = client.memory] {
    memory->remove(close.session);
    reactor_.mailbox()->post([this, key] { sessions_.remove(key); });
  });
}

void Daemon::Impl::act(uint64_t number, const RankGone& gone, const std::optional<run::FileDescriptor>&) {
  const Client& client = greeted(number);
  const auto session = client.sessions.find(gone.session);
  if (session != client.sessions.end()) sessions_.lose(session->second.key, gone.rank);
}

// ---- Sessions ----

// Nobody is taken for another user's.
std::string Daemon::Impl::tenant_of(const Client& client, const OpenSession& open) {
  const std::string user = std::to_string(client.connection->identity().user);
  return open.tenant.empty() ? user : user + "/" + open.tenant;
}

// Returns why the old ones stay, or nothing.
std::string Daemon::Impl::apply_rules() {
  try {
    rules_.reload();
  } catch (const Error& error) {
    events_.note(std::string("the rules stay as they are, since the new ones cannot be used: ") + error.what());
    return error.what();
  }
  events_.note("rules of version " + std::to_string(rules_.rules().version()) + " are in force");
  tell_terms();
  return {};
}

// Sessions that are open get what the rules grant now.
void Daemon::Impl::tell_terms() {
  for (const auto& [client_number, client] : clients_) {
    for (const auto& [number, session] : client.sessions) {
      worker_.post([number = number, memory = client.memory, grant = rules_.grant(session.subject, session.tenant),
                    calls = rules_.grants_of_calls(session.subject, session.tenant)] {
        Session* const found = memory->find(number);
        if (found != nullptr) found->set_terms(grant, calls);
      });
    }
  }
}

std::vector<HostCard> Daemon::Impl::cards_of(const OpenSession& open) {
  std::vector<HostCard> cards;
  for (const std::string& host : open.hosts) {
    std::optional<HostCard> card = directory_->find(host);
    if (!card) throw Error(ErrorCode::not_found, "no daemon of host '" + host + "' has come to " + options_.world);
    mesh_->meet(*card);
    cards.push_back(*std::move(card));
  }
  return cards;
}

void Daemon::Impl::act(uint64_t number, const OpenSession& open, const std::optional<run::FileDescriptor>&) {
  Client& client = greeted(number);
  const OpenSessions::Key key = OpenSessions::key_of(open);
  try {
    expect_possible(open, host_);
    if (client.sessions.contains(open.session)) throw Error(ErrorCode::invalid_usage, "its session is open already");
    std::vector<HostCard> cards = cards_of(open);
    Subject subject = subject_of(client.connection->identity(), open.tenant);
    subject.communicator = open.name;
    for (const HostCard& card : cards) subject.hosts.push_back(card.name);
    const std::string tenant = tenant_of(client, open);
    const Grant grant = granted(open, subject, tenant);
    const auto lanes = std::make_shared<SessionLanes>(reactor_, connects_, key.first, targets_of(open, cards),
                                                      [this] { return acceptor_->has_strangers(); });
    peer_cards_.follow(*lanes, open, cards);
    const auto on_session = [this, number = open.session, memory = client.memory](const auto& act) {
      worker_.post([number, memory, act] {
        Session* const session = memory->find(number);
        if (session == nullptr) return;
        act(*session);
        memory->rouse(number);
      });
    };
    sessions_.add(
        key, {.lanes = lanes,
              .hear = [on_session](
                          const std::string& text) { on_session([text](Session& session) { session.hear(text); }); },
              .set_rate =
                  [on_session](uint64_t rate) { on_session([rate](Session& session) { session.set_rate(rate); }); }});
    client.sessions.emplace(open.session, ClientSession{.key = key, .subject = std::move(subject), .tenant = tenant});
    std::vector<uint32_t> ranks(open.members.size());
    std::iota(ranks.begin(), ranks.end(), 0u);
    auto connector = std::make_unique<run::LaneConnector>(
        reactor_.mailbox(), lanes->connections(),
        run::ConnectionGroup{.communicator = kGroup,
                             .members = std::move(ranks),
                             .own = open.rank,
                             .at_most = std::chrono::milliseconds(std::min(open.timeout, open.join_timeout))});
    // Shared, since a task can be copied.
    const auto opening =
        std::make_shared<SessionOpening>(SessionOpening{.wish = open,
                                                        .tenant = tenant,
                                                        .client = client.view,
                                                        .grant = grant,
                                                        .calls = rules_.grants_of_calls(subject, tenant),
                                                        .cards = std::move(cards),
                                                        .lanes = lanes,
                                                        .connector = std::move(connector)});
    worker_.post([this, number, opening, memory = client.memory] { open_on_worker(number, *opening, *memory); });
    sessions_.hand_over(key);
  } catch (const Error& error) {
    ++refused_["session"];
    client.connection->say(Refused{.wish = open.wish, .error = error});
  }
}

// Throws Error{invalid_usage} when the rules or the operator deny it.
Grant Daemon::Impl::granted(const OpenSession& wish, const Subject& subject, const std::string& tenant) {
  if (is_draining_) {
    throw Error(ErrorCode::invalid_usage, "the operator drains this host; no communicators are opened here");
  }
  Grant grant = rules_.grant(subject, tenant);
  if (grant.logs) {
    BANYAN_LOG(info) << "rule " << in_quotes(grant.rule) << ": " << subject.user << " opens " << in_quotes(wish.name)
                     << ", rank " << wish.rank << " of " << wish.members.size();
  }
  if (!grant.denial) return grant;
  throw Error(ErrorCode::invalid_usage, "the rules of the service deny this communicator: " + *grant.denial +
                                            " (rule " + in_quotes(grant.rule) + ")");
}

void Daemon::Impl::open_on_worker(uint64_t number, SessionOpening& opening, WorkerClient& memory) {
  const OpenSession& wish = opening.wish;
  SessionHooks hooks;
  hooks.tell_all = teller_of(wish);
  hooks.report = [this](const Activity& activity) {
    reactor_.mailbox()->post([this, activity] { steward_->report(activity); });
  };
  hooks.failed = [this, number, session = wish.session,
                  who = "rank " + std::to_string(wish.rank) + " of " + in_quotes(wish.name)](const Error& error) {
    say_later(number, SessionFailed{.session = session, .error = error});
    reactor_.mailbox()->post([this, who, why = std::string(error.what())] { events_.note(who + " failed: " + why); });
  };
  try {
    memory.add(wish.session, maker_.make(opening, memory.regions(), std::move(hooks)));
    say_later(number, SessionOpened{.wish = wish.wish, .means = "TCP"});
  } catch (const Error& error) {
    say_later(number, Refused{.wish = wish.wish, .error = error});
    // Its end is a message to the lanes, which therefore last until the next one.
    opening.connector.reset();
    reactor_.mailbox()->post([this, number, session = wish.session, lanes = std::move(opening.lanes)] {
      const auto client = clients_.find(number);
      if (client == clients_.end()) return;
      const auto node = client->second.sessions.extract(session);
      if (!node.empty()) sessions_.remove(node.mapped().key);
    });
  }
}

// ---- Operators ----

void Daemon::Impl::open_to_operators(const std::string& node, HandedSockets& sockets) {
  operations_.emplace(
      HostOperations::Parts{
          .reactor = reactor_,
          .worker = worker_,
          .rules = rules_,
          .events = events_,
          .files = maker_.files,
          .capacities = maker_.capacities ? *maker_.capacities : std::vector<double>(),
          .carried = maker_.carried,
      },
      HostOperations::Host{.sessions = [this] { return known_sessions(); },
                           .describe = [this, node] { return describe(node); },
                           .drain = [this](bool drains) { is_draining_ = drains; },
                           .rules_changed = [this] { tell_terms(); }});
  operators_.emplace(OperatorDesk::Parts{
      .reactor = reactor_, .directory = *directory_, .mesh = *mesh_, .operations = *operations_, .own = host_});
  if (!options_.operators.empty()) sockets.operators = listen_at(options_.operators, DoorKind::operators, false);
  if (!options_.http.empty()) sockets.http = listen_on(options_.http);
  if (!sockets.operators.is_open() && !sockets.http.is_open()) return;
  http_.emplace(reactor_);
  if (sockets.operators.is_open()) http_->serve(std::move(sockets.operators), operators_->handler(true));
  if (sockets.http.is_open()) http_->serve(std::move(sockets.http), operators_->handler(false));
}

HostView Daemon::Impl::describe(const std::string& node) {
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  HostView view{.at = seconds(std::chrono::system_clock::now().time_since_epoch()),
                .host = host_,
                .name = name_of_host(),
                .node = maker_.capacities ? node : "",
                .version = BANYAN_VERSION,
                .up_seconds = seconds(reactor_.now() - began_),
                .is_draining = is_draining_,
                .rules_version = rules_.rules().version(),
                .clients = static_cast<uint32_t>(clients_.size()),
                .core_seconds = seconds(worker_.core_time()),
                .refused = refused_,
                .replans = operations_->replans(),
                .events_dropped = events_.dropped(),
                .events = events_.last()};
  if (steward_) {
    const std::optional<HostCard> card = directory_->find(steward_->steward_host());
    if (card) view.steward = card->name;
  }
  return view;
}

std::vector<KnownSession> Daemon::Impl::known_sessions() const {
  std::vector<KnownSession> known;
  for (const auto& [client_number, client] : clients_) {
    for (const auto& [number, session] : client.sessions) {
      known.push_back({.number = number,
                       .memory = client.memory,
                       .rank = session.key.second,
                       .id = OpenSessions::public_id(session.key.first),
                       .name = session.subject.communicator,
                       .subject = session.subject,
                       .tenant = session.tenant});
    }
  }
  return known;
}

std::optional<RouteDesk::Place> Daemon::Impl::rank0_of(const std::string& communicator) const {
  for (const auto& [client_number, client] : clients_) {
    for (const auto& [number, session] : client.sessions) {
      if (session.key == OpenSessions::Key(communicator, 0)) {
        return RouteDesk::Place{.memory = client.memory, .number = number};
      }
    }
  }
  return std::nullopt;
}

// ---- The interface ----

Daemon::Daemon(Options options, HandedSockets sockets)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(sockets))) {}
Daemon::~Daemon() = default;
void Daemon::run() { impl_->run(); }
void Daemon::stop() { impl_->stop(); }
void Daemon::reload_rules(Reloaded done) { impl_->reload_rules(std::move(done)); }
void Daemon::every(std::chrono::microseconds pause, std::function<void()> task) { impl_->every(pause, task); }

}  // namespace banyan::service
