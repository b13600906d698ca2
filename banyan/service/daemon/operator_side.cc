#include "banyan/service/daemon/operator_side.h"

#include <chrono>
#include <utility>

#include "banyan/run/system/descriptor_use.h"
#include "banyan/service/http/shared_answers.h"
#include "banyan/service/view/findings.h"

namespace banyan::service {
namespace {

// For which operators see that there were no descriptors for a program.
constexpr std::chrono::seconds kShortageShown{10};
// For which all who look get one answer. What it shows need not be newer.
constexpr std::chrono::milliseconds kShared{500};

HostNames own_names(HostNames names) {
  names.add_own();
  try {
    names.add(name_of_host());
  } catch (const Error&) {  // such as an identity with a colon: no browser says it
  }
  return names;
}

}  // namespace

OperatorSide::OperatorSide(DaemonCore& core, SessionOpener& opener, Workers& workers)
    : core_(core),
      cluster_(opener.cluster()),
      opener_(opener),
      workers_(workers),
      began_(core.reactor.now()),
      operations_({.reactor = core.reactor,
                   .workers = workers,
                   .clients = opener.clients(),
                   .rules = core.rules,
                   .events = core.events,
                   .maker = core.maker,
                   .slow_links = replans_,
                   .describe = [this] { return describe(); },
                   .upgrade = [this](HostOperations::Upgraded done) { upgrade_(std::move(done)); }}) {}

void OperatorSide::begin(std::function<void(HostOperations::Upgraded done)> upgrade) {
  upgrade_ = std::move(upgrade);
  host_answers_.emplace(HostAnswers::Parts{
      .timers = core_.reactor,
      .own = [this](const std::string& command, const std::string& body,
                    const HostAnswers::Reply& reply) { operations_.answer(command, body, reply); },
      .older = [this] { return cluster_.older(); },
      .ask = [this](const DaemonName& daemon,
                    const OperatorQuestion& question) { cluster_.mesh().send_to_one(daemon, encode(question)); },
      .record = [this](const std::string& words) { core_.events.record(words); }});
  obey();
  api_.emplace(OperatorApi::Parts{.reactor = core_.reactor,
                                  .cards = cluster_.cards(),
                                  .mesh = cluster_.mesh(),
                                  .host = *host_answers_,
                                  .obedience = *obedience_,
                                  .own = core_.host});
  if (cluster_.has_steward()) {
    slow_links_.emplace(SlowLinkWatch::Parts{.reactor = core_.reactor,
                                             .operators = *api_,
                                             .events = core_.events,
                                             .replans = replans_,
                                             .may_act = [this] { return core_.rules.rules().replans_alone(); },
                                             .is_steward = [this] { return cluster_.steward_host() == core_.host; }});
  }
  hints_.emplace(HintService::Parts{.reactor = core_.reactor,
                                    .look = [this](const OperatorApi::Seen& seen) { api_->look(seen); },
                                    .files = core_.maker.files,
                                    .capacities = core_.capacities()});
  core_.every(DirectRanks::kPause, [this] { direct_.look(); });
}

void OperatorSide::obey() {
  obedience_.emplace(
      Obedience::Parts{.own = core_.host,
                       .hosts = core_.options.obey,
                       .name_of =
                           [this](const std::string& host) {
                             const HostCard* const card = cluster_.cards().find(host);
                             return card == nullptr ? std::string() : card->name;
                           },
                       .is_where_its_card_says =
                           [this](const DaemonName& daemon) { return cluster_.mesh().is_where_its_card_says(daemon); },
                       .may_replan_alone =
                           [this](const std::string& host) {
                             return core_.rules.rules().replans_alone() && cluster_.steward_host() == host;
                           }});
}

void OperatorSide::serve(const HandedSockets& sockets) {
  if (!sockets.operators.is_open() && !sockets.http.is_open()) return;
  run::Reactor& reactor = core_.reactor;
  http_.emplace(reactor);
  if (sockets.operators.is_open()) http_->serve(copy_of(sockets.operators), api_->handler(true));
  if (sockets.http.is_open()) {
    http_->serve(copy_of(sockets.http),
                 only_for(own_names(core_.options.http_hosts),
                          shared_for(reactor, kShared, {"/v1/cluster", "/v1/host", "/metrics"}, api_->handler(false))));
  }
}

void OperatorSide::let_in(bool are_let_in) {
  if (http_) http_->let_in(are_let_in);
}

void OperatorSide::close_doors() {
  if (http_) http_->close_doors();
}

void OperatorSide::receive(const DaemonName& from, const OperatorAnswer& answer) {
  if (from.host != core_.host) return api_->receive(from.host, answer);
  if (from == cluster_.older()) host_answers_->receive(answer);
}

HostView OperatorSide::describe() {
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  const run::DescriptorUse descriptors = run::descriptor_use();
  HostView view{.at = seconds(std::chrono::system_clock::now().time_since_epoch()),
                .host = core_.host,
                .name = name_of_host(),
                .node = core_.maker.capacities ? cluster_.own().node : "",
                .version = BANYAN_VERSION,
                .up_seconds = seconds(core_.reactor.now() - began_),
                .is_draining = core_.rules.is_draining(),
                .obeys = obedience_->hosts(),
                .rules_version = core_.rules.rules().version(),
                .clients = static_cast<uint32_t>(opener_.clients().clients().size()),
                .core_seconds = seconds(workers_.core_time()),
                .refused = core_.events.refused(),
                .replans = operations_.replans(),
                .events_dropped = core_.events.dropped(),
                .communicators = direct_.views(),
                .events = core_.events.last()};
  view.unlisted = direct_.unlisted();
  view.descriptors = descriptors.used;
  view.most_descriptors = descriptors.allowed;
  for (const auto& [host, card] : cluster_.cards().cards()) view.lost_hosts += cluster_.mesh().reaches(host) ? 0 : 1;
  view.troubles = troubles();
  if (const std::optional<std::string> steward = cluster_.steward_host()) {
    if (const HostCard* const card = cluster_.cards().find(*steward)) view.steward = card->name;
  }
  return view;
}

std::vector<FindingView> OperatorSide::troubles() const {
  std::vector<FindingView> troubles;
  const auto add = [&](const char* kind, const std::string& words) {
    troubles.push_back({.kind = kind, .communicator = {}, .words = words});
  };
  const RuleBook& rules = core_.rules;
  const std::string& directory = cluster_.cards().trouble();
  if (slow_links_) troubles = slow_links_->findings();
  if (shortage_ && core_.reactor.now() - shortage_->at < kShortageShown) {
    add(kDescriptorTrouble, "host " + name_of_host() + " lets no program in: " + shortage_->why);
  }
  if (!directory.empty()) add(kDirectoryTrouble, directory);
  if (!rules.refusal().empty()) {
    add(kRulesTrouble, "host " + name_of_host() + " goes by its rules of version " +
                           std::to_string(rules.rules().version()) +
                           ", since those in its file are refused: " + rules.refusal());
  }
  return troubles;
}

void OperatorSide::record_shortage(const std::string& why) {
  EventLog& events = core_.events;
  const run::Reactor::TimePoint now = core_.reactor.now();
  events.count_refusal("descriptors");
  if (!shortage_ || now - shortage_->at >= kShortageShown) events.warn(why);
  shortage_ = {.at = now, .why = why};
}

void OperatorSide::report_state() {
  if (!core_.options.tell || opener_.is_handing_over()) return;
  const std::string& directory = cluster_.cards().trouble();
  std::string state = core_.rules.is_draining() ? "draining" : Daemon::kServing;
  if (!core_.rules.refusal().empty()) state += " by the old rules: " + core_.rules.refusal();
  if (!directory.empty()) state += "; " + directory;
  if (state != reported_state_) core_.options.tell(state);
  reported_state_ = std::move(state);
}

}  // namespace banyan::service
