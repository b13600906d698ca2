#include "banyan/service/daemon/daemon.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "banyan/run/record/log.h"
#include "banyan/service/cluster/mesh_messages.h"
#include "banyan/service/daemon/upgrade.h"
#include "banyan/service/session/worker_watch.h"

namespace banyan::service {
namespace {

// Between looks for what waits in vain.
constexpr std::chrono::seconds kSweep{1};

}  // namespace

// Composes the parts. Each knows those above it, and ends before them, and the workers, which begin last and end first.
class Daemon::Impl {
 public:
  Impl(Options options, HandedSockets sockets, Predecessor* predecessor);
  ~Impl() { upgrade_.unlink(); }

  void run();
  void stop() { core_.reactor.stop(); }
  void reload_rules(Reloaded done);
  void watch_workers(std::chrono::microseconds patience, std::function<void()> alive);
  Places places() const;

 private:
  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);
  void receive(const DaemonName& from, const std::string& message);

  DaemonCore core_;
  ClusterSide cluster_;
  SessionOpener opener_;
  OperatorSide operators_;
  ClientSide programs_;
  Upgrade upgrade_;
  Workers workers_;  // the last, so that they end first
};

Daemon::Impl::Impl(Options options, HandedSockets sockets, Predecessor* predecessor)
    : core_(std::move(options)),
      cluster_(core_),
      opener_(core_, cluster_),
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
       .admit = [this](const run::Greeting& greeting, run::Admitted& admitted) { return admit(greeting, admitted); },
       .rank0 = [this](const std::string& communicator) { return opener_.clients().rank0_of(communicator); }});
  operators_.begin([this](HostOperations::Host::Upgraded done) { upgrade_.begin(std::move(done)); });
  upgrade_.open_operators();
  operators_.serve(upgrade_.sockets());
  core_.every(kSweep, [this] {
    opener_.sessions().sweep();
    upgrade_.end_if_idle();
    core_.threads->go_on();
    operators_.tell_state();
  });
  programs_.open_door(copy_of(upgrade_.sockets().tenants));
  if (predecessor != nullptr) predecessor->serve(cluster_.own());
  for (const std::string& each : core_.rules.warnings()) core_.events.warn(each);
}

void Daemon::Impl::run() {
  core_.reactor.run([](const Error& error) { BANYAN_LOG(warning) << "the service goes on after: " << error.what(); });
}

void Daemon::Impl::reload_rules(Reloaded done) {
  core_.reactor.mailbox()->post([this, done = std::move(done)] {
    const std::string refusal = opener_.reload_rules();
    if (done) done(refusal);
  });
}

Daemon::Places Daemon::Impl::places() const {
  const HandedSockets& sockets = upgrade_.sockets();
  return {
      .tenants = place_of(sockets.tenants), .operators = place_of(sockets.operators), .http = place_of(sockets.http)};
}

void Daemon::Impl::watch_workers(std::chrono::microseconds patience, std::function<void()> alive) {
  const auto watches = std::make_shared<std::vector<WorkerWatch>>();  // kept by the task that looks at them
  for (size_t number = 0; number < workers_.size(); ++number) {
    const std::string name = workers_.size() == 1 ? "the worker's thread"
                                                  : "the thread of worker " + std::to_string(number + 1) + " of " +
                                                        std::to_string(workers_.size());
    watches->emplace_back(name,
                          [&worker = workers_[number]](std::function<void()> task) { worker.post(std::move(task)); });
  }
  core_.every(patience / 2, [this, watches, alive = std::move(alive)] {
    const auto hung = std::count_if(watches->begin(), watches->end(),
                                    [now = core_.reactor.now()](WorkerWatch& watch) { return !watch.look(now); });
    if (hung == 0) alive();
  });
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
      sessions.hear(*text);
    } else if (const auto* const refusal = std::get_if<SessionRefusal>(&said)) {
      sessions.hear(*refusal);
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
void Daemon::run() { impl_->run(); }
void Daemon::stop() { impl_->stop(); }
Daemon::Places Daemon::places() const { return impl_->places(); }
void Daemon::reload_rules(Reloaded done) { impl_->reload_rules(std::move(done)); }
void Daemon::watch_workers(std::chrono::microseconds patience, std::function<void()> alive) {
  impl_->watch_workers(patience, std::move(alive));
}

}  // namespace banyan::service
