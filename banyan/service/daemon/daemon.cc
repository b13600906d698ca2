#include "banyan/service/daemon/daemon.h"

#include <algorithm>
#include <utility>

#include "banyan/run/record/log.h"
#include "banyan/service/cluster/mesh_messages.h"
#include "banyan/service/daemon/upgrade.h"
#include "banyan/service/session/workers.h"

namespace banyan::service {
namespace {

// Between looks for what waits in vain.
constexpr std::chrono::seconds kSweep{1};

}  // namespace

// Composes the parts. Each knows those above it, and ends before them. Some know the workers, too, which begin last and
// end first, and `cluster_` knows `clients_`: they use these only in between.
struct Daemon::Impl {
  Impl(Options options, HandedSockets sockets, Predecessor* predecessor);
  ~Impl() { upgrade_.unlink(); }

  std::string reload_rules();
  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);
  void receive(const DaemonName& from, const std::string& message);

  DaemonCore core_;
  ClusterSide cluster_;
  ClientTable clients_;
  SessionOpener opener_;
  OperatorSide operators_;
  ClientSide programs_;
  Upgrade upgrade_;
  Workers workers_;  // the last, so that they end first
};

Daemon::Impl::Impl(Options options, HandedSockets sockets, Predecessor* predecessor)
    : core_(std::move(options)),
      cluster_(core_, clients_),
      clients_(core_.reactor),
      opener_(core_, cluster_, clients_),
      operators_(core_, opener_, workers_),
      programs_(core_, opener_, operators_, workers_),
      upgrade_(opener_, operators_, programs_, std::move(sockets)),
      workers_(core_.options.workers, core_.options.is_oversubscribed, core_.reactor.mailbox()) {
  if (predecessor == nullptr) upgrade_.open_tenants();
  cluster_.listen();
  std::optional<OlderDaemon> older;
  if (predecessor != nullptr) older = upgrade_.inherit(*predecessor);
  cluster_.begin(
      std::move(older),
      {.received = [this](const DaemonName& from, const std::string& message) { receive(from, message); },
       .admit = [this](const run::Greeting& greeting, run::Admitted& admitted) { return admit(greeting, admitted); }});
  operators_.begin([this](HostOperations::Upgraded done) { upgrade_.begin(std::move(done)); });
  upgrade_.open_operators();
  operators_.serve(upgrade_.sockets());
  core_.every(kSweep, [this] {
    opener_.sessions().sweep();
    upgrade_.end_if_idle();
    core_.threads->go_on();
    operators_.report_state();
  });
  programs_.open_door(copy_of(upgrade_.sockets().tenants));
  if (predecessor != nullptr) predecessor->serve(cluster_.own());
  for (const std::string& each : core_.rules.warnings()) core_.events.warn(each);
}

// Returns why the old ones stay, or nothing.
std::string Daemon::Impl::reload_rules() {
  try {
    core_.rules.reload();
  } catch (const Error& error) {
    core_.events.warn(std::string("the rules stay as they are, since the new ones cannot be used: ") + error.what());
    return error.what();
  }
  core_.events.record("rules of version " + std::to_string(core_.rules.rules().version()) + " are in force");
  for (const std::string& each : core_.rules.warnings()) core_.events.warn(each);
  core_.rules.grant_anew(clients_);
  return {};
}

std::optional<std::string> Daemon::Impl::admit(const run::Greeting& greeting, run::Admitted& connection) {
  if (greeting.purpose == "lane") return opener_.sessions().admit(greeting, connection);
  return "a daemon called for '" + greeting.purpose.substr(0, 32) + "'";
}

// What is wrong with it is no trouble of the connection that brought it.
void Daemon::Impl::receive(const DaemonName& from, const std::string& message) {
  OpenSessions& sessions = opener_.sessions();
  try {
    const MeshMessage said = decode_mesh_message(message);
    if (const auto* const text = std::get_if<SessionText>(&said)) {
      sessions.receive(*text);
    } else if (const auto* const refusal = std::get_if<SessionRefusal>(&said)) {
      sessions.receive(*refusal);
    } else if (const auto* const rate = std::get_if<SessionRate>(&said)) {
      sessions.set_rate(*rate);
    } else if (const auto* const question = std::get_if<OperatorQuestion>(&said)) {
      operators_.receive(from, *question);
    } else if (const auto* const answer = std::get_if<OperatorAnswer>(&said)) {
      operators_.receive(from, *answer);
    } else if (const auto* const view = std::get_if<SessionView>(&said)) {
      cluster_.receive(*view);
    } else {
      cluster_.receive(std::get<Activity>(said));
    }
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "what the daemon of host " << in_quotes(from.host)
                        << " says is not understood: " << error.what();
  }
}

// ---- The interface ----

Daemon::Daemon(Options options, HandedSockets sockets)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(sockets), nullptr)) {}
Daemon::Daemon(Options options, std::shared_ptr<Predecessor> predecessor)
    : impl_(std::make_unique<Impl>(std::move(options), HandedSockets(), predecessor.get())) {}
Daemon::~Daemon() = default;

void Daemon::run() {
  impl_->core_.reactor.run(
      [](const Error& error) { BANYAN_LOG(warning) << "the service goes on after: " << error.what(); });
}

void Daemon::stop() { impl_->core_.reactor.stop(); }

void Daemon::reload_rules(Reloaded done) {
  impl_->core_.reactor.mailbox()->post([impl = impl_.get(), done = std::move(done)] {
    const std::string refusal = impl->reload_rules();
    if (done) done(refusal);
  });
}

Daemon::Places Daemon::places() const {
  const HandedSockets& sockets = impl_->upgrade_.sockets();
  return {
      .tenants = place_of(sockets.tenants), .operators = place_of(sockets.operators), .http = place_of(sockets.http)};
}

void Daemon::watch_workers(std::chrono::microseconds patience, std::function<void()> alive) {
  DaemonCore& core = impl_->core_;
  Workers& workers = impl_->workers_;
  const auto watches = std::make_shared<std::vector<WorkerWatch>>();  // kept by the task that looks at them
  for (size_t number = 0; number < workers.size(); ++number) {
    const std::string name = workers.size() == 1 ? "the worker's thread"
                                                 : "the thread of worker " + std::to_string(number + 1) + " of " +
                                                       std::to_string(workers.size());
    watches->emplace_back(name,
                          [&worker = workers[number]](std::function<void()> task) { worker.post(std::move(task)); });
  }
  core.every(patience / 2, [&core, watches, alive = std::move(alive)] {
    const auto hung = std::count_if(watches->begin(), watches->end(),
                                    [now = core.reactor.now()](WorkerWatch& watch) { return !watch.look(now); });
    if (hung == 0) alive();
  });
}

}  // namespace banyan::service
