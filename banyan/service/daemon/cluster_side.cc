#include "banyan/service/daemon/cluster_side.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "banyan/fabric/links.h"
#include "banyan/run/join/network.h"
#include "banyan/run/system/ds_field.h"
#include "banyan/run/system/host_names.h"
#include "banyan/service/cluster/reachable_directory.h"
#include "banyan/service/protocol/capability.h"

namespace banyan::service {
namespace {

constexpr std::chrono::milliseconds kHandshakeTime{10'000};

// Of what daemons tell each other: by it they agree who may send how much.
std::optional<uint8_t> own_mark(const std::optional<ClassMarks>& marks) {
  return marks ? std::optional(marks->of(ShareClass::high)) : std::nullopt;
}

// It warns on another thread.
std::unique_ptr<HostDirectory> directory_for(DaemonCore& core) {
  const auto warn = [&events = core.events, mailbox = core.reactor.mailbox()](const std::string& words) {
    mailbox->post([&events, words] { events.warn(words); });
  };
  return std::make_unique<ReachableDirectory>(
      HostDirectory::at(core.options.world, core.options.secret),
      ReachableDirectory::Here{.host = core.host, .addresses = run::outward_addresses, .warn = warn});
}

}  // namespace

ClusterSide::ClusterSide(DaemonCore& core, const ClientTable& clients)
    : core_(core),
      clients_(clients),
      connects_(core.reactor, core.options.secret, core.host, kHandshakeTime, own_mark(core.options.marks)),
      cards_(core.reactor, directory_for(core), name_of_directory(core.options.world),
             CardCache::Hooks{.found =
                                  [this](const HostCard& card) {
                                    if (mesh_) mesh_->meet(card);
                                  },
                              .record = [this](const std::string& words) { core_.events.warn(words); }}) {}

void ClusterSide::listen() {
  const Daemon::Options& options = core_.options;
  std::vector<std::string> addresses = {options.address};
  if (options.address.empty()) {
    addresses = options.secret.is_empty() ? std::vector<std::string>{"127.0.0.1"} : run::outward_addresses();
  }
  // Connections along routes come to the addresses of these.
  const bool has_one = addresses.size() == 1 && (options.planner.routes.empty() || options.secret.is_empty());
  const std::string bound = has_one ? addresses.front() : run::any_address_like(addresses);
  core_.wait_for_address(bound);
  listener_ = run::Listener::on(bound);
  if (const auto dscp = own_mark(options.marks)) run::mark_packets(listener_->fd(), *dscp);
  own_ = {.host = core_.host,
          .incarnation = random_bits<uint64_t>(),
          .name = name_of_host(),
          .node = options.node.empty() ? run::host_name() : options.node,
          .addresses = std::move(addresses),
          .port = listener_->port()};
}

void ClusterSide::begin(std::optional<OlderDaemon> older, Events events) {
  events_ = std::move(events);
  if (older) own_.older = {*std::move(older)};
  cards_.begin(own_);
  mesh_.emplace(
      core_.reactor, connects_, cards_, own_,
      Mesh::Events{.received = events_.received, .lost = [this](const std::string& host, const std::string& why) {
                     if (host == core_.host) return;  // that is told otherwise
                     core_.events.record("the daemon of host " + in_quotes(host) + " is lost: " + why);
                   }});
  if (core_.maker.capacities) share_out_links();
  acceptor_.emplace(
      core_.reactor, *std::exchange(listener_, std::nullopt), core_.options.secret, core_.host,
      run::Acceptor::Options{.not_proved = [this] { core_.events.count_refusal("secret"); },
                             .tell = [this](const std::string& words) { core_.events.warn(words); }},
      [this](const run::Greeting& greeting, run::Admitted& admitted) { return admit(greeting, admitted); });
}

void ClusterSide::share_out_links() {
  const Fabric& network = fabric_of(*core_.maker.files).value();
  routes_.emplace(RouteAdvice::Parts{
      .reactor = core_.reactor,
      .mesh = *mesh_,
      .clients = clients_,
      .links = {.bandwidths = fabric::link_bandwidths(network), .cables = fabric::link_cables(network)},
      .capacities = core_.capacities()});
  steward_.emplace(core_.reactor, cards_, *mesh_, core_.host, Steward::Options{.capacities = core_.capacities()},
                   *routes_);
}

std::optional<std::string> ClusterSide::admit(const run::Greeting& greeting, run::Admitted& connection) {
  return greeting.purpose == Mesh::kPurpose ? mesh_->admit(greeting, connection) : events_.admit(greeting, connection);
}

std::optional<DaemonName> ClusterSide::older() const {
  if (own_.older.empty()) return std::nullopt;
  return DaemonName{.host = core_.host, .incarnation = own_.older.front().incarnation};
}

void ClusterSide::forget_older() {
  own_.older.clear();
  mesh_->meet(own_);
  cards_.publish(own_);
}

std::optional<std::string> ClusterSide::steward_host() {
  return steward_ ? std::optional(steward_->steward_host()) : std::nullopt;
}

void ClusterSide::receive(const Activity& activity) {
  if (steward_) steward_->receive(activity);
}

void ClusterSide::receive(const SessionView& view) {
  if (routes_) routes_->receive(view);
}

}  // namespace banyan::service
