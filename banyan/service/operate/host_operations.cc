#include "banyan/service/operate/host_operations.h"

#include <algorithm>
#include <set>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/json_line.h"
#include "banyan/fabric/links.h"
#include "banyan/service/operate/rule_book.h"
#include "banyan/service/view/short_view.h"
#include "banyan/service/view/view_budget.h"
#include "banyan/service/view/view_json.h"

namespace banyan::service {
namespace {

constexpr std::chrono::milliseconds kLookAtReplan{10};

bool is_meant(const KnownSession& session, const std::string& pattern) {
  return session.id == pattern || is_like(pattern, session.subject.communicator);
}

}  // namespace

HostOperations::HostOperations(Parts parts) : parts_(std::move(parts)) {
  if (const std::optional<Fabric>& network = fabric_of(*parts_.maker.files)) {
    link_names_ = fabric::link_names(*network);
    link_cables_ = fabric::link_cables(*network);
  }
}

// Throws Error.
std::vector<uint32_t> HostOperations::cables_called(const std::string& link) const {
  const std::optional<Fabric>& network = fabric_of(*parts_.maker.files);
  if (!network) throw Error(ErrorCode::invalid_usage, "no fabric is known; give the daemons --fabric");
  return fabric::cables_called(*network, link);
}

void HostOperations::answer(const std::string& command, const std::string& body, const Reply& reply) {
  try {
    if (command == "view") return view(body, reply);
    if (command == "replan") return replan(body, reply);
    if (command == "replan alone") return replan_alone(body, reply);
    if (command == "upgrade") return upgrade(body, reply);
    if (command == "set") return reply({.body = set(body)});
    if (command == "drain") return reply({.body = drain(body)});
    if (command == "rules") return reply({.body = rules_in_force(parts_.rules)});
    if (command == "load rules") return reply({.body = load_rules(body)});
    throw Error(ErrorCode::not_found, "this daemon knows no command " + in_quotes(command));
  } catch (const Error& error) {
    reply({.is_refusal = true, .body = error.what()});
  }
}

// ---- How it does ----

struct HostOperations::Listing {
  HostView view;
  std::map<std::string, size_t> places;  // of sessions' communicators in it, by id
  ViewBudget budget;
};

// Workers know; each is asked for its own clients.
void HostOperations::view(const std::string& body, Reply reply) {
  const auto listing = std::make_shared<Listing>(Listing{.view = parts_.describe(), .places = {}, .budget = {}});
  parts_.workers.ask_each(
      [listing, clients = parts_.clients.attached()](const Worker& worker) {
        for (const auto& client : clients) {
          if (&client->worker() != &worker) continue;
          listing->view.memory_bytes += client->regions().bytes();
          for (const auto& [number, session] : client->sessions()) add_session(*listing, *session);
        }
      },
      lifetime_.guard([this, listing, is_short = body == kShortly, reply = std::move(reply)] {
        HostView& view = listing->view;
        for (const auto& [user, count] : listing->budget.unlisted()) view.unlisted[user] += count;
        add_links(view, parts_.maker.carried->by_tenant());
        add_ways(view, parts_.maker.ways->rows(std::chrono::steady_clock::now().time_since_epoch()));
        if (is_short) view = short_view(std::move(view));
        reply({.body = to_json(view)});
      }));
}

// Ranks of one communicator become one row.
void HostOperations::add_session(Listing& listing, const Session& session) {
  if (!listing.budget.take(session.about())) return;
  CommunicatorView seen = session.view();
  std::vector<CommunicatorView>& communicators = listing.view.communicators;
  const auto [place, is_new] = listing.places.try_emplace(seen.id, communicators.size());
  if (is_new) {
    communicators.push_back(std::move(seen));
    return;
  }
  CommunicatorView& known = communicators[place->second];
  known.ranks.push_back(std::move(seen.ranks.front()));
  std::sort(known.ranks.begin(), known.ranks.end(),
            [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
}

void HostOperations::add_links(HostView& view, const CarriedBytes::ByTenant& carried) const {
  std::map<uint32_t, LinkView> links;
  for (const auto& [tenant, by_link] : carried) {
    for (const auto& [link, bytes] : by_link) {
      LinkView& row = links[link];
      row.name = link_names_.at(link);
      row.capacity = parts_.maker.capacities->at(link);
      row.bytes_by_tenant[tenant] = static_cast<uint64_t>(bytes);
    }
  }
  for (auto& [number, row] : links) view.links.push_back(std::move(row));
}

void HostOperations::add_ways(HostView& view, const std::vector<WayMeter::Row>& rows) const {
  const auto seconds = [](WayMeter::Time time) { return std::chrono::duration<double>(time).count(); };
  for (const WayMeter::Row& row : rows) {
    WayView way{.from = view.name,
                .to = row.way.to,
                .is_whole = row.way.is_whole,
                .seconds = seconds(row.window),
                .busy_seconds = seconds(row.busy),
                .pressed_seconds = seconds(row.pressed),
                .delayed_seconds = seconds(row.delayed),
                .round_trip_seconds = seconds(row.round_trip),
                .wake_seconds = seconds(row.wake),
                .bytes_by_tenant = row.bytes,
                .allowed = row.allowed};
    for (const uint32_t link : row.way.links) {
      way.links.push_back({.name = link_names_.at(link), .capacity = parts_.maker.capacities->at(link)});
    }
    view.ways.push_back(std::move(way));
  }
}

// ---- What it is to do ----

std::string HostOperations::set(const std::string& body) {
  const SetCommand command = read_set_command(body);
  parts_.rules.set(command.tenant, command.resets ? std::nullopt : std::optional(command.change));
  parts_.rules.grant_anew(parts_.clients);
  const auto sessions = parts_.clients.open_sessions();
  const auto count = std::count_if(sessions.begin(), sessions.end(),
                                   [&](const KnownSession& session) { return session.tenant == command.tenant; });
  parts_.events.record("an operator " + std::string(command.resets ? "takes back what was set for" : "sets terms of") +
                       " tenant " + in_quotes(command.tenant));
  return JsonLine().add("sessions", count).take();
}

std::string HostOperations::drain(const std::string& body) {
  const bool drains = read_drain_command(body);
  parts_.rules.drain(drains);
  parts_.events.record(drains ? "an operator drains this host: no communicators are opened any more"
                              : "an operator lets communicators be opened again");
  return JsonLine().add("sessions", parts_.clients.open_sessions().size()).take();
}

void HostOperations::upgrade(const std::string& body, Reply reply) {
  check_upgrade_command(body);
  parts_.upgrade(lifetime_.guard([this, reply = std::move(reply)](int process, const std::string& refusal) {
    if (!refusal.empty()) return reply({.is_refusal = true, .body = refusal});
    reply({.body = JsonLine().add("process", process).add("sessions", parts_.clients.open_sessions().size()).take()});
  }));
}

// Of the ranks of one communicator that are here, one stands for all.
std::string HostOperations::load_rules(const std::string& body) {
  const RulesCommand command = read_rules_command(body);
  std::vector<RuledCommunicator> communicators;
  std::set<std::string> known;
  for (KnownSession& session : parts_.clients.open_sessions()) {
    if (!known.insert(session.id).second) continue;
    communicators.push_back({.id = std::move(session.id),
                             .name = session.subject.communicator,
                             .tenant = std::move(session.tenant),
                             .subject = std::move(session.subject)});
  }
  std::string answer = service::load_rules(parts_.rules, command, communicators);
  if (!command.only_checks) {
    parts_.events.record("an operator puts rules of version " + std::to_string(parts_.rules.rules().version()) +
                         " in force, until the file of this host is read again");
    for (const std::string& each : parts_.rules.warnings()) parts_.events.warn(each);
    parts_.rules.grant_anew(parts_.clients);
  }
  return answer;
}

run::PlanWish HostOperations::wish_of(const ReplanCommand& command) const {
  run::PlanWish wish{.plan = command.plan};
  for (const std::string& link : command.avoid) {
    for (const uint32_t cable : cables_called(link)) wish.avoided_cables.insert(cable);
  }
  for (const std::string& link : command.restore) {
    for (const uint32_t cable : cables_called(link)) {
      if (wish.avoided_cables.contains(cable)) {
        throw invalid("link " + in_quotes(link) + " is to be avoided and restored; say one of them");
      }
      wish.restored_cables.insert(cable);
    }
  }
  for (const auto& [link, bandwidth] : command.bandwidth) {
    for (const uint32_t cable : cables_called(link)) wish.bytes_per_second[cable] = bandwidth;
  }
  return wish;
}

// What workers have seen of the sessions that were asked.
struct HostOperations::Replan {
  struct Asked {
    KnownSession session;
    std::optional<uint64_t> wish = {};  // its number; none before it is asked
    std::optional<run::WishOutcome> outcome = {};
    std::string error = {}, note = {};
  };
  std::vector<Asked> asked;
  run::PlanWish wish;
  std::map<std::string, std::set<uint32_t>> restored = {};  // cables by the names that the command has for them
  run::Reactor::TimePoint until;
  Reply reply;

  bool is_over() const {
    return std::all_of(asked.begin(), asked.end(),
                       [](const Asked& each) { return each.outcome || !each.error.empty(); });
  }
  // On the worker's thread: at its own sessions.
  void look(const Worker& worker) {
    for (Asked& each : asked) {
      const SessionPlace& place = each.session.place;
      if (&place.memory->worker() != &worker) continue;
      Session* const session = place.memory->find(place.number);
      if (session == nullptr) {
        each.error = "it has ended";
        continue;
      }
      try {
        if (!each.wish) {
          each.wish = session->propose(wish);
          place.memory->rouse(place.number);
        } else if (!each.outcome) {
          each.outcome = session->outcome(*each.wish);
          if (each.outcome) each.note = note_of(*session);
        }
      } catch (const Error& error) {
        each.error = error.what();
      }
    }
  }
  // To restore mends nothing: who asks for it is told what it does not do.
  std::string note_of(const Session& session) const {
    const std::optional<PlannedCall> planned = session.planned();
    if (!planned) return {};
    std::string lost;
    for (const auto& [link, cables] : restored) {
      const bool is_lost = std::any_of(cables.begin(), cables.end(),
                                       [&](uint32_t cable) { return planned->adopted.lost_cables.contains(cable); });
      if (is_lost) lost += (lost.empty() ? "" : ", ") + link;
    }
    return lost.empty() ? "" : lost + " is lost: it is used again when it carries, and --restore does not mend it";
  }
  std::string answer() const {
    std::string rows;
    for (const Asked& each : asked) {
      JsonLine row;
      row.add("id", each.session.id).add("name", each.session.subject.communicator);
      const std::string trouble = !each.error.empty() ? each.error
                                  : !each.outcome     ? "its ranks have not agreed yet; the wish stands until they do"
                                                      : each.outcome->refusal;
      row.add("generation", each.outcome ? each.outcome->generation : 0).add("refusal", trouble);
      if (!each.note.empty()) row.add("note", each.note);
      rows += (rows.empty() ? "" : ",") + row.take();
    }
    return "{\"communicators\":[" + rows + "]}";
  }
  uint64_t adopted() const {
    return static_cast<uint64_t>(std::count_if(asked.begin(), asked.end(), [](const Asked& each) {
      return each.error.empty() && each.outcome && each.outcome->refusal.empty();
    }));
  }
};

void HostOperations::replan(const std::string& body, Reply reply) {
  const ReplanCommand command = read_replan_command(body);
  auto replan = std::make_shared<Replan>();
  replan->wish = wish_of(command);
  for (const std::string& link : command.restore) {
    for (const uint32_t cable : cables_called(link)) replan->restored[link].insert(cable);
  }
  leave_links_of(replan->wish);
  begin(replan, command.communicator, std::move(reply));
  if (!replan->asked.empty()) {
    parts_.events.record("an operator asks " + std::to_string(replan->asked.size()) + " of the communicators like " +
                         in_quotes(command.communicator) + " for other plans");
  }
}

// What operators say of a cable is of both its links, which the service leaves to them from then on.
void HostOperations::leave_links_of(const run::PlanWish& wish) const {
  for (size_t link = 0; link < link_names_.size(); ++link) {
    const uint32_t cable = link_cables_[link];
    if (wish.avoided_cables.contains(cable) || wish.restored_cables.contains(cable) ||
        wish.bytes_per_second.contains(cable)) {
      parts_.slow_links.leave(link_names_[link]);
    }
  }
}

void HostOperations::replan_alone(const std::string& body, Reply reply) {
  const LoneReplanCommand command = read_lone_replan_command(body);
  auto replan = std::make_shared<Replan>();
  replan->wish = wish_of(command);
  parts_.slow_links.record(command.rates, parts_.reactor.now().time_since_epoch());
  begin(replan, command.communicator, std::move(reply));
}

run::PlanWish HostOperations::wish_of(const LoneReplanCommand& command) const {
  run::PlanWish wish;
  for (const auto& [name, rate] : command.rates) {
    const auto link = std::find(link_names_.begin(), link_names_.end(), name);
    if (link == link_names_.end()) throw Error(ErrorCode::not_found, "there is no link " + in_quotes(name));
    const auto number = static_cast<size_t>(link - link_names_.begin());
    const Link& own = fabric_of(*parts_.maker.files)->links()[number];
    const uint64_t bandwidth = rate.value_or(own.bandwidth.bytes_per_second());
    // Of two links of one cable the slower one counts.
    const auto [said, is_new] = wish.bytes_per_second.try_emplace(link_cables_[number], bandwidth);
    if (!is_new) said->second = std::min(said->second, bandwidth);
  }
  return wish;
}

void HostOperations::begin(const std::shared_ptr<Replan>& replan, const std::string& communicator, Reply reply) {
  for (KnownSession& session : parts_.clients.open_sessions()) {
    if (session.rank == 0 && is_meant(session, communicator)) replan->asked.push_back({std::move(session)});
  }
  replan->until = parts_.reactor.now() + kReplanTime;
  replan->reply = std::move(reply);
  look_after(replan);
}

void HostOperations::look_after(const std::shared_ptr<Replan>& replan) {
  parts_.workers.ask_each([replan](const Worker& worker) { replan->look(worker); }, lifetime_.guard([this, replan] {
    if (replan->is_over() || parts_.reactor.now() >= replan->until) {
      replans_ += replan->adopted();
      return replan->reply({.body = replan->answer()});
    }
    parts_.reactor.after(kLookAtReplan, lifetime_.guard([this, replan] { look_after(replan); }));
  }));
}

}  // namespace banyan::service
