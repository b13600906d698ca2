#include "banyan/service/daemon/daemon_core.h"

#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "banyan/fabric/links.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/system/host_names.h"

namespace banyan::service {
namespace {

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

void go_on(run::Reactor& reactor, std::chrono::microseconds pause, const std::function<void()>& task) {
  reactor.after(pause, [&reactor, pause, task] { go_on(reactor, pause, task); });
  task();
}

}  // namespace

std::string name_of_host() {
  const char* const name = std::getenv("BANYAN_HOST_ID");
  return name == nullptr || *name == '\0' ? run::host_name() : name;
}

DaemonCore::DaemonCore(Daemon::Options given)
    : options(std::move(given)),
      host(options.host.empty() ? run::own_host_id() : options.host),
      maker(maker_for(options)),
      rules(options.rules),
      events(name_of_host()) {}

void DaemonCore::every(std::chrono::microseconds pause, const std::function<void()>& task) {
  reactor.after({}, [this, pause, task] { go_on(reactor, pause, task); });
}

void DaemonCore::record(TenantAccount& account, std::string words) {
  words = account.record(reactor.now().time_since_epoch(), std::move(words));
  if (!words.empty()) events.record(std::move(words));
}

void DaemonCore::wait_for_address(const std::string& address) const {
  while (options.wait && !run::Listener::can_be_on(address)) {
    options.wait("no interface of this host has the address " + address + " (yet)");
  }
}

}  // namespace banyan::service
