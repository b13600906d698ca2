#include "banyan/service/daemon/daemon.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "banyan/fabric/links.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/join/network.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/descriptor_use.h"
#include "banyan/run/system/ds_field.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/cluster/mesh_messages.h"
#include "banyan/service/cluster/reachable_directory.h"
#include "banyan/service/daemon/daemon_impl.h"
#include "banyan/service/daemon/door.h"
#include "banyan/service/view/findings.h"

namespace banyan::service {
namespace {

constexpr std::chrono::milliseconds kHandshakeTime{10'000};
// For which operators see that there were no descriptors for a program.
constexpr std::chrono::seconds kShortageShown{10};
// For which all who look get one answer. What it shows need not be newer.
constexpr std::chrono::milliseconds kShared{500};
// Between looks for what waits in vain.
constexpr std::chrono::seconds kSweep{1};

uint64_t new_incarnation() {
  uint64_t incarnation = 0;
  if (getrandom(&incarnation, sizeof incarnation, 0) != sizeof incarnation) {
    throw run::system_error("cannot get random numbers");
  }
  return incarnation;
}

SessionMaker maker_for(const Daemon::Options& options) {
  SessionMaker maker{.files = compose::read_files(options.planner),
                     .is_oversubscribed = options.is_oversubscribed,
                     .marks = options.marks};
  if (!options.secret.is_empty()) maker.sealing = run::Sealing::authenticated;
  if (const std::optional<Fabric>& network = fabric_of(*maker.files)) {
    std::vector<double> capacities = fabric::link_bandwidths(*network);
    for (double& capacity : capacities) capacity *= options.payload;
    maker.capacities = std::make_shared<const std::vector<double>>(std::move(capacities));
  }
  return maker;
}

// Of what daemons tell each other: by it they agree who may send how much.
std::optional<uint8_t> own_mark(const std::optional<ClassMarks>& marks) {
  return marks ? std::optional(marks->of(ShareClass::high)) : std::nullopt;
}

HostNames own_names(HostNames names) {
  names.add_own();
  try {
    names.add(name_of_host());
  } catch (const Error&) {  // such as an identity with a colon: no browser says it
  }
  return names;
}

// `warn` is called on another thread.
std::unique_ptr<HostDirectory> directory_for(const std::string& world, const run::Secret& secret,
                                             const std::string& host,
                                             const std::function<void(const std::string& words)>& warn) {
  return std::make_unique<ReachableDirectory>(
      HostDirectory::at(world, secret),
      ReachableDirectory::Here{.host = host, .addresses = run::outward_addresses, .warn = warn});
}

}  // namespace

std::string name_of_host() {
  const char* const name = std::getenv("BANYAN_HOST_ID");
  return name == nullptr || *name == '\0' ? run::host_name() : name;
}

Daemon::Impl::Impl(Options options, HandedSockets sockets, Predecessor* predecessor)
    : options_(std::move(options)),
      host_(options_.host.empty() ? run::own_host_id() : options_.host),
      maker_(maker_for(options_)),
      connects_(reactor_, options_.secret, host_, kHandshakeTime, own_mark(options_.marks)),
      rules_(options_.rules),
      events_(name_of_host()),
      cards_(reactor_,
             directory_for(options_.world, options_.secret, host_,
                           [this, mailbox = reactor_.mailbox()](const std::string& words) {
                             mailbox->post([this, words] { events_.warn(words); });
                           }),
             name_of_directory(options_.world),
             CardCache::Hooks{.found =
                                  [this](const HostCard& card) {
                                    if (mesh_) mesh_->meet(card);
                                  },
                              .note = [this](const std::string& words) { events_.warn(words); }}),
      accounts_(options_.limits.value_or(TenantLimits::of_machine())),
      threads_(std::make_shared<TenantThreads>()),
      names_({.mailbox = reactor_.mailbox(),
              .elsewhere = [this](const auto& task) { return threads_->try_post(TenantThreads::names(), task); },
              .name_of = options_.name_of}),
      sub_ids_({.path = options_.sub_ids,
                .warn = [this](const std::string& words) { events_.warn(words); },
                .number_of = [this](const std::string& name) { return names_.number_of(name); }}),
      unlinks_tenants_(!sockets.tenants.is_open()),
      unlinks_operators_(!options_.operators.empty()),
      began_(reactor_.now()),
      workers_(options_.workers, options_.is_oversubscribed, reactor_.mailbox()) {
  if (predecessor == nullptr && !sockets.tenants.is_open()) {
    sockets.tenants = own_socket(options_.socket, DoorKind::tenants, options_.is_for_all_users);
  }
  open_to_daemons(predecessor, sockets);
  open_to_operators(own_.node, sockets);
  every(DirectRanks::kPause, [this] { direct_.look(); });
  every(kSweep, [this] {
    sessions_.sweep();
    end_if_idle();
    threads_->go_on();
    if (options_.tell && !is_handing_over_) tell_state();
  });
  if (unlinks_tenants_) options_.keeper.keep(options_.socket, sockets.tenants);
  listening_.tenants = copy_of(sockets.tenants);
  door_.emplace(
      reactor_, std::move(sockets.tenants), accounts_,
      ClientDoor::Hooks{
          .is_known = [this](uint32_t user) { return is_known(user); },
          .know = [this](uint32_t user, std::function<void()> then) { know(user, std::move(then)); },
          .owner_of = [this](uint32_t user) { return sub_ids_.owner_of(user); },
          .name_of = [this](uint32_t owner) { return names_.name_of(owner); },
          .quota_group = [this](const ClientIdentity& who) { return rules_.rules().quota_group(subject_of(who, "")); },
          .came = [this](ClientDoor::Guest guest) { welcome(std::move(guest)); },
          .turned_away = [this](const std::shared_ptr<TenantAccount>& account,
                                run::FileDescriptor socket) { closer_for(account)(std::move(socket)); },
          .is_short = [this](const std::string& why) { note_shortage(why); }});
  door_->open();
  if (predecessor != nullptr) predecessor->serve(own_);
  for (const std::string& each : rules_.warnings()) events_.warn(each);
}

void Daemon::Impl::open_to_daemons(Predecessor* predecessor, HandedSockets& sockets) {
  std::vector<std::string> addresses = {options_.address};
  if (options_.address.empty()) {
    addresses = options_.secret.is_empty() ? std::vector<std::string>{"127.0.0.1"} : run::outward_addresses();
  }
  // Connections along routes come to the addresses of these.
  const bool has_one = addresses.size() == 1 && (options_.planner.routes.empty() || options_.secret.is_empty());
  const std::string bound = has_one ? addresses.front() : run::any_address_like(addresses);
  wait_for_address(bound);
  run::Listener listener = run::Listener::on(bound);
  if (const auto dscp = own_mark(options_.marks)) run::mark_packets(listener.fd(), *dscp);
  own_ = {.host = host_,
          .incarnation = new_incarnation(),
          .name = name_of_host(),
          .node = options_.node.empty() ? run::host_name() : options_.node,
          .addresses = std::move(addresses),
          .port = listener.port()};
  if (predecessor != nullptr) inherit(*predecessor, sockets);
  cards_.begin(own_);
  mesh_.emplace(
      reactor_, connects_, cards_, own_,
      Mesh::Events{.received = [this](const DaemonName& from, const std::string& message) { hear(from, message); },
                   .lost =
                       [this](const std::string& host, const std::string& why) {
                         if (host == host_) return;  // that is told otherwise
                         events_.note("the daemon of host " + in_quotes(host) + " is lost: " + why);
                       }});
  if (maker_.capacities) {
    const Fabric& network = fabric_of(*maker_.files).value();
    steward_.emplace(reactor_, cards_, *mesh_, host_, Steward::Options{.capacities = *maker_.capacities},
                     [this](const Activity& activity) { routes_->record(activity); });
    routes_.emplace(RouteAdvice::Parts{
        .reactor = reactor_,
        .links = {.bandwidths = fabric::link_bandwidths(network), .cables = fabric::link_cables(network)},
        .capacities = *maker_.capacities,
        .tell = [this](const std::string& host, const SessionView& view) { mesh_->send_to_all(host, encode(view)); },
        .rank0 = [this](const std::string& communicator) { return rank0_of(communicator); }});
  }
  acceptor_ = std::make_unique<run::Acceptor>(
      reactor_, std::move(listener), options_.secret, host_,
      run::Acceptor::Options{.not_proved = [this] { ++refused_["secret"]; },
                             .tell = [this](const std::string& words) { events_.warn(words); }},
      [this](const run::Greeting& greeting, run::Admitted& admitted) { return admit(greeting, admitted); });
}

void Daemon::Impl::wait_for_address(const std::string& address) const {
  while (options_.wait && !run::Listener::can_be_on(address)) {
    options_.wait("no interface of this host has the address " + address + " (yet)");
  }
}

run::FileDescriptor Daemon::Impl::own_socket(const std::string& path, DoorKind kind, bool is_for_all_users) const {
  run::FileDescriptor kept = options_.keeper.take(path);
  return kept.is_open() ? std::move(kept) : listen_at(path, kind, is_for_all_users);
}

Daemon::Impl::~Impl() {
  if (unlinks_tenants_) unlink(options_.socket.c_str());
  if (unlinks_operators_) unlink(options_.operators.c_str());
}

void Daemon::Impl::run() {
  reactor_.run([](const Error& error) { BANYAN_LOG(warning) << "the service goes on after: " << error.what(); });
}

void Daemon::Impl::watch_workers(std::chrono::microseconds patience, std::function<void()> alive) {
  for (size_t number = 0; number < workers_.size(); ++number) {
    const std::string name = workers_.size() == 1 ? "the worker's thread"
                                                  : "the thread of worker " + std::to_string(number + 1) + " of " +
                                                        std::to_string(workers_.size());
    watches_.emplace_back(name,
                          [&worker = workers_[number]](std::function<void()> task) { worker.post(std::move(task)); });
  }
  every(patience / 2, [this, alive = std::move(alive)] {
    const auto hung = std::count_if(watches_.begin(), watches_.end(),
                                    [now = reactor_.now()](WorkerWatch& watch) { return !watch.look(now); });
    if (hung == 0) alive();
  });
}

// ---- Other daemons ----

std::optional<std::string> Daemon::Impl::admit(const run::Greeting& greeting, run::Admitted& connection) {
  if (greeting.purpose == "lane") return sessions_.admit(greeting, connection);
  if (greeting.purpose == Mesh::kPurpose) return mesh_->admit(greeting, connection);
  return "a daemon called for '" + greeting.purpose.substr(0, 32) + "'";
}

// What is wrong with it is no trouble of the connection that brought it.
void Daemon::Impl::hear(const DaemonName& from, const std::string& message) {
  try {
    const MeshMessage said = decode_mesh_message(message);
    if (const auto* const text = std::get_if<SessionText>(&said)) {
      sessions_.hear(*text);
    } else if (const auto* const refusal = std::get_if<SessionRefusal>(&said)) {
      sessions_.hear(*refusal);
    } else if (const auto* const rate = std::get_if<SessionRate>(&said)) {
      sessions_.set_rate(*rate);
    } else if (const auto* const question = std::get_if<OperatorQuestion>(&said)) {
      operators_->receive(from, *question);
    } else if (const auto* const answer = std::get_if<OperatorAnswer>(&said)) {
      if (from.host != host_) operators_->receive(from.host, *answer);
      if (older_ && from.host == host_ && from.incarnation == older_->daemon.incarnation)
        host_answers_->receive(*answer);
    } else if (const auto* const view = std::get_if<SessionView>(&said)) {
      if (routes_) routes_->receive(*view);
    } else if (steward_) {
      steward_->receive(std::get<Activity>(said));
    }
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "what the daemon of host " << in_quotes(from.host)
                        << " says is not understood: " << error.what();
  }
}

// From a worker's thread.
std::function<void(const std::string&)> Daemon::Impl::teller_of(const OpenSession& open, uint32_t user) {
  return [this, communicator = OpenSessions::key_of(open).first, members = members_of(open),
          user](const std::string& text) {
    reactor_.mailbox()->post([this, communicator, members, text, user] {
      for (const RanksOnHost& member : members) {
        try {
          mesh_->send_to_all(
              member.host,
              encode(SessionText{.communicator = communicator, .ranks = member.ranks, .text = text, .user = user}));
        } catch (const Error& error) {
          BANYAN_LOG(warning) << "ranks on host " << in_quotes(member.host)
                              << " do not hear what one says: " << error.what();
        }
      }
    });
  };
}

// ---- Operators ----

void Daemon::Impl::open_to_operators(const std::string& node, HandedSockets& sockets) {
  operations_.emplace(
      HostOperations::Parts{
          .reactor = reactor_,
          .workers = workers_,
          .rules = rules_,
          .events = events_,
          .files = maker_.files,
          .capacities = maker_.capacities ? *maker_.capacities : std::vector<double>(),
          .carried = maker_.carried,
          .ways = maker_.ways,
      },
      HostOperations::Host{.sessions = [this] { return known_sessions(); },
                           .clients = [this] { return attached(); },
                           .describe = [this, node] { return describe(node); },
                           .drain = [this](bool drains) { is_draining_ = drains; },
                           .upgrade = [this](HostOperations::Host::Upgraded done) { upgrade(std::move(done)); },
                           .rules_changed = [this] { tell_terms(); },
                           .has_replanned =
                               [this](const SlowLinkReplans::Rates& rates) {
                                 if (slow_links_) slow_links_->record(rates);
                               },
                           .operator_said =
                               [this](const std::string& link) {
                                 if (slow_links_) slow_links_->leave(link);
                               }});
  host_answers_.emplace(HostAnswers::Parts{
      .timers = reactor_,
      .own = [this](const std::string& command, const std::string& body,
                    const HostAnswers::Reply& reply) { operations_->answer(command, body, reply); },
      .older = [this]() -> std::optional<DaemonName> {
        if (!older_) return std::nullopt;
        return DaemonName{.host = host_, .incarnation = older_->daemon.incarnation};
      },
      .ask = [this](const DaemonName& daemon,
                    const OperatorQuestion& question) { mesh_->send_to_one(daemon, encode(question)); },
      .note = [this](const std::string& words) { events_.note(words); }});
  obedience_.emplace(Obedience::Parts{
      .own = host_,
      .hosts = options_.obey,
      .name_of =
          [this](const std::string& host) {
            const HostCard* const card = cards_.find(host);
            return card == nullptr ? std::string() : card->name;
          },
      .is_where_its_card_says = [this](const DaemonName& daemon) { return mesh_->is_where_its_card_says(daemon); },
      .may_replan_alone =
          [this](const std::string& host) {
            return rules_.rules().replans_alone() && steward_ && steward_->steward_host() == host;
          }});
  operators_.emplace(OperatorApi::Parts{.reactor = reactor_,
                                        .cards = cards_,
                                        .mesh = *mesh_,
                                        .host = *host_answers_,
                                        .obedience = *obedience_,
                                        .own = host_});
  if (steward_) {
    slow_links_.emplace(SlowLinkWatch::Parts{.reactor = reactor_,
                                             .operators = *operators_,
                                             .events = events_,
                                             .may_act = [this] { return rules_.rules().replans_alone(); },
                                             .is_steward = [this] { return steward_->steward_host() == host_; }});
  }
  hints_.emplace(HintService::Parts{.reactor = reactor_,
                                    .look = [this](const OperatorApi::Seen& seen) { operators_->look(seen); },
                                    .files = maker_.files,
                                    .capacities = maker_.capacities ? *maker_.capacities : std::vector<double>()});
  serve_operators(sockets);
}

void Daemon::Impl::serve_operators(HandedSockets& sockets) {
  if (!sockets.operators.is_open() && !options_.operators.empty()) {
    sockets.operators = own_socket(options_.operators, DoorKind::operators, false);
  }
  if (!sockets.http.is_open() && !options_.http.empty()) {
    const HttpPlace place = HttpPlace::parse(options_.http);
    wait_for_address(place.address);
    sockets.http = listen_on(place);
  }
  if (unlinks_operators_) options_.keeper.keep(options_.operators, sockets.operators);
  listening_.operators = copy_of(sockets.operators);
  listening_.http = copy_of(sockets.http);
  if (!sockets.operators.is_open() && !sockets.http.is_open()) return;
  http_.emplace(reactor_);
  if (sockets.operators.is_open()) http_->serve(std::move(sockets.operators), operators_->handler(true));
  if (sockets.http.is_open()) {
    http_->serve(
        std::move(sockets.http),
        only_for(own_names(options_.http_hosts),
                 shared_for(reactor_, kShared, {"/v1/cluster", "/v1/host", "/metrics"}, operators_->handler(false))));
  }
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
                .obeys = obedience_->hosts(),
                .rules_version = rules_.rules().version(),
                .clients = static_cast<uint32_t>(clients_.size()),
                .core_seconds = seconds(workers_.core_time()),
                .refused = refused_,
                .replans = operations_->replans(),
                .events_dropped = events_.dropped(),
                .communicators = direct_.views(),
                .events = events_.last()};
  view.unlisted = direct_.unlisted();
  const run::DescriptorUse descriptors = run::descriptor_use();
  view.descriptors = descriptors.used;
  view.most_descriptors = descriptors.allowed;
  for (const auto& [host, card] : cards_.cards()) view.lost_hosts += mesh_->reaches(host) ? 0 : 1;
  if (slow_links_) view.troubles = slow_links_->findings();
  if (shortage_ && reactor_.now() - shortage_->at < kShortageShown) {
    view.troubles.push_back({.kind = kDescriptorTrouble,
                             .communicator = {},
                             .words = "host " + name_of_host() + " lets no program in: " + shortage_->why});
  }
  if (!cards_.trouble().empty()) {
    view.troubles.push_back({.kind = kDirectoryTrouble, .communicator = {}, .words = cards_.trouble()});
  }
  if (!rules_.refusal().empty()) {
    view.troubles.push_back({.kind = kRulesTrouble,
                             .communicator = {},
                             .words = "host " + name_of_host() + " goes by its rules of version " +
                                      std::to_string(rules_.rules().version()) +
                                      ", since those in its file are refused: " + rules_.refusal()});
  }
  if (steward_) {
    if (const HostCard* const steward = cards_.find(steward_->steward_host())) view.steward = steward->name;
  }
  return view;
}

void Daemon::Impl::tell_state() {
  std::string state = is_draining_ ? "draining" : kServing;
  if (!rules_.refusal().empty()) state += " by the old rules: " + rules_.refusal();
  if (!cards_.trouble().empty()) state += "; " + cards_.trouble();
  if (state != told_state_) options_.tell(state);
  told_state_ = std::move(state);
}

// One event for each time that it begins.
void Daemon::Impl::note_shortage(const std::string& why) {
  ++refused_["descriptors"];
  if (!shortage_ || reactor_.now() - shortage_->at >= kShortageShown) events_.warn(why);
  shortage_ = {.at = reactor_.now(), .why = why};
}

std::vector<std::shared_ptr<WorkerClient>> Daemon::Impl::attached() const {
  std::vector<std::shared_ptr<WorkerClient>> attached;
  for (const auto& [number, client] : clients_) {
    if (client.memory) attached.push_back(client.memory);
  }
  return attached;
}

std::vector<KnownSession> Daemon::Impl::known_sessions() const {
  std::vector<KnownSession> known;
  for (const auto& [client_number, client] : clients_) {
    for (const auto& [number, session] : client.sessions) {
      if (!session.is_open) continue;
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

std::optional<RouteAdvice::Place> Daemon::Impl::rank0_of(const std::string& communicator) const {
  for (const auto& [client_number, client] : clients_) {
    for (const auto& [number, session] : client.sessions) {
      if (session.key == OpenSessions::Key(communicator, 0)) {
        return RouteAdvice::Place{.memory = client.memory, .number = number};
      }
    }
  }
  return std::nullopt;
}

// ---- The interface ----

Daemon::Daemon(Options options, HandedSockets sockets)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(sockets), nullptr)) {}
Daemon::Daemon(Options options, std::shared_ptr<Predecessor> predecessor)
    : impl_(std::make_unique<Impl>(std::move(options), HandedSockets(), predecessor.get())) {}
Daemon::~Daemon() = default;
void Daemon::run() { impl_->run(); }
void Daemon::stop() { impl_->stop(); }
Daemon::Places Daemon::places() const { return impl_->places(); }
void Daemon::reload_rules(Reloaded done) { impl_->reload_rules(std::move(done)); }
void Daemon::watch_workers(std::chrono::microseconds patience, std::function<void()> alive) {
  impl_->watch_workers(patience, std::move(alive));
}

}  // namespace banyan::service
