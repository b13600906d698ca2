// Daemon::Impl: clients come and go, what they say, and their sessions.
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/utf8.h"
#include "banyan/run/agent/lane_connector.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/daemon/daemon_impl.h"
#include "banyan/service/share/tenant_label.h"

namespace banyan::service {
namespace {

// All sessions of a communicator say the same to each other's daemons.
constexpr uint64_t kGroup = 1;

// At names of hosts and tenants: some 10 us, as TenantAccount::act counts.
constexpr double kLooksOfAnAct = 100;

Capability new_capability() {
  Capability capability;
  const auto size = static_cast<ssize_t>(capability.size());
  if (getrandom(capability.data(), capability.size(), 0) != size) throw run::system_error("cannot get random numbers");
  return capability;
}

// What it costs to do what a client says, as TenantAccount::act counts.
double cost_of(const ClientMessage& message) {
  if (std::holds_alternative<Hello>(message)) return 5;
  if (std::holds_alternative<OfferRegion>(message) || std::holds_alternative<ShowRecord>(message)) return 3;
  if (std::holds_alternative<AskHints>(message)) return 20;
  const auto* const open = std::get_if<OpenSession>(&message);
  if (open == nullptr) return 1;
  return 4 + static_cast<double>(open->members.size()) / 128 + static_cast<double>(open->hosts.size()) / 8;
}

// What a program calls itself, of which each of its ranks shows a copy.
std::string in_short(const std::string& program) {
  constexpr size_t kMost = 200;
  return program.size() <= kMost ? harmless(program) : harmless(program.substr(0, kMost)) + "...";
}

}  // namespace

// ---- Clients come and go ----

bool Daemon::Impl::is_known(uint32_t user) {
  const std::string owner = sub_ids_.asks_for(user);
  return (owner.empty() || names_.knows(owner)) && names_.knows(sub_ids_.owner_of(user));
}

// Asks for the number of whom it is a sub-id of, and then for the name.
void Daemon::Impl::know(uint32_t user, std::function<void()> then) {
  if (is_known(user)) return then();
  const auto go_on = [this, user, then = std::move(then)] { know(user, then); };
  const std::string owner = sub_ids_.asks_for(user);
  if (!owner.empty() && !names_.knows(owner)) return names_.ask(owner, go_on);
  names_.ask(sub_ids_.owner_of(user), go_on);
}

void Daemon::Impl::welcome(ClientDoor::Guest guest) {
  const uint64_t number = next_client_++;
  Client client;
  client.connection = std::make_unique<ClientConnection>(
      reactor_, std::move(guest.socket), std::move(guest.process),
      ClientConnection::Hooks{.said = [this, number](const ClientMessage& message,
                                                     Descriptor& descriptor) { heard(number, message, descriptor); },
                              .gone = [this, number](const std::string& why) { drop(number, why); },
                              .pause = [this, number] { return pause_of(clients_.at(number)); },
                              .close = closer_for(guest.account)});
  client.account = std::move(guest.account);
  client.charge = std::move(guest.charge);
  client.hello_by = reactor_.after(options_.hello_time, [this, number] { drop(number, "it has not said hello"); });
  clients_.emplace(number, std::move(client));
}

std::function<void(run::FileDescriptor)> Daemon::Impl::closer_for(const std::shared_ptr<TenantAccount>& account) const {
  struct Closed {
    run::FileDescriptor descriptor;
    TenantAccount::Charge charge;
  };
  return [threads = threads_, account](run::FileDescriptor descriptor) {
    const auto closed = std::make_shared<Closed>(
        Closed{.descriptor = std::move(descriptor), .charge = account->add(Resource::closing, 1)});
    threads->post(TenantThreads::closing_for(account->number()), [closed] { closed->descriptor.reset(); });
  };
}

// Has a user's mappings unmapped.
std::function<void(std::function<void()> task)> Daemon::Impl::later_for(const TenantAccount& account) const {
  return [threads = threads_, number = account.number()](std::function<void()> task) {
    threads->post(TenantThreads::closing_for(number), std::move(task));
  };
}

// How long its wishes are to stay unread.
std::chrono::nanoseconds Daemon::Impl::pause_of(const Client& client) const {
  constexpr std::chrono::milliseconds kUntilGreeted{1}, kUntilClosed{50};
  if (client.has_said_hello && client.hello_by) return kUntilGreeted;
  if (!client.account->has_room(Resource::closing, 1)) return kUntilClosed;
  return client.account->wait(reactor_.now().time_since_epoch());
}

void Daemon::Impl::note(TenantAccount& account, std::string words) {
  words = account.note(reactor_.now().time_since_epoch(), std::move(words));
  if (!words.empty()) events_.note(std::move(words));
}

void Daemon::Impl::drop(uint64_t number, const std::string& why) {
  auto node = clients_.extract(number);
  if (node.empty()) return;
  direct_.remove(number);
  // What it has cost is given back when all of it has ended.
  const auto client = std::make_shared<Client>(std::move(node.mapped()));
  note(*client->account, "process " + std::to_string(client->connection->identity().process) + " has detached: " + why);
  if (client->hello_by) reactor_.cancel(*client->hello_by);
  client->connection->end();
  // Who calls this may be the connection.
  reactor_.mailbox()->post([kept = std::shared_ptr<ClientConnection>(std::move(client->connection))] {});
  if (!client->memory) return;
  // Sessions end on the worker's thread, and before their lanes do.
  Worker& worker = client->memory->worker();
  worker.post([this, &worker, number, client] {
    worker.remove(number);
    reactor_.mailbox()->post([this, client] {
      for (const auto& [each, session] : client->sessions) {
        if (session.is_open) sessions_.remove(session.key);
      }
    });
  });
}

Daemon::Impl::Client& Daemon::Impl::greeted(uint64_t number) {
  Client& client = clients_.at(number);
  if (!client.memory) throw Error(ErrorCode::invalid_input, "it has not said hello");
  return client;
}

void Daemon::Impl::heard(uint64_t number, const ClientMessage& message, Descriptor& descriptor) {
  clients_.at(number).account->act(reactor_.now().time_since_epoch(), cost_of(message));
  std::visit([&](const auto& said) { act(number, said, descriptor); }, message);
}

void Daemon::Impl::say_later(uint64_t number, DaemonMessage message) {
  reactor_.mailbox()->post([this, number, message = std::move(message)] {
    const auto found = clients_.find(number);
    if (found != clients_.end()) found->second.connection->say(message);
  });
}

// ---- What clients say ----

void Daemon::Impl::act(uint64_t number, const Hello& hello, Descriptor& descriptor) {
  Client& client = clients_.at(number);
  if (client.has_said_hello) throw Error(ErrorCode::invalid_input, "it says hello twice");
  if (!descriptor) throw Error(ErrorCode::invalid_input, "it says hello without a doorbell");
  client.has_said_hello = true;
  if (hello.version != kProtocolVersion) return greet(client, hello);
  look_at(number, *std::exchange(descriptor, std::nullopt), sizeof(DoorbellPage),
          {.found =
               [this, number, hello](Client& asked, Region doorbell) {
                 attach(number, asked, std::move(doorbell));
                 greet(asked, hello);
               },
           .refused = [this, number](const Error& error) { drop(number, error.message()); }});
}

// A client of another version reads which one this is.
void Daemon::Impl::greet(Client& client, const Hello& hello) {
  if (client.hello_by) reactor_.cancel(*std::exchange(client.hello_by, std::nullopt));
  const ClientIdentity& who = client.connection->identity();
  note(*client.account, "process " + std::to_string(who.process) + " of user " + std::to_string(who.user) +
                            " has attached: " + hello.program);
  client.view = {.host = name_of_host(),
                 .process = static_cast<uint32_t>(who.process),
                 .user = static_cast<uint32_t>(who.user),
                 .program = in_short(hello.program)};
  client.connection->say(Welcome{.version = kProtocolVersion,
                                 .host = host_,
                                 .capability = new_capability(),
                                 .is_crowded = options_.is_oversubscribed},
                         client.memory ? client.memory->event_fd() : -1);
  if (is_handing_over_) client.connection->say(Succeeded());
}

void Daemon::Impl::act(uint64_t number, const CloseSession& close, Descriptor&) {
  Client& client = greeted(number);
  auto node = client.sessions.extract(close.session);
  // Its opening was refused, or finds that it has been closed.
  if (node.empty() || !node.mapped().is_open) return;
  // Its quota is free now, so that the client may open another one at once.
  closing_.try_emplace(node.mapped().key);
  client.memory->worker().post([this, close, key = node.mapped().key, memory = client.memory] {
    memory->remove(close.session);
    reactor_.mailbox()->post([this, key] {
      sessions_.remove(key);
      const auto closed = closing_.extract(key);
      if (closed.empty()) return;
      for (const auto& opening : closed.mapped()) open_planned(opening);
    });
  });
}

// Of all communicators of the user on this host: processes of a job ask for what they share. Is charged by how many
// these are.
HintService::Asker Daemon::Impl::asker_of_hints(uint64_t number) {
  const Client& asking = clients_.at(number);
  HintService::Asker asker;
  size_t looks = clients_.size();
  for (const auto& [other, client] : clients_) {
    if (!client.memory || client.view.user != asking.view.user) continue;
    for (const auto& [place, session] : client.sessions) {
      if (!session.is_open) continue;
      asker.hosts.insert(session.subject.hosts.begin(), session.subject.hosts.end());
      asker.tenants.insert(session.tenant);
      looks += session.subject.hosts.size() + 1;
    }
  }
  if (!asker.tenants.empty()) asker.tenants.insert(others_of(*asker.tenants.begin()));
  asking.account->act(reactor_.now().time_since_epoch(), static_cast<double>(looks) / kLooksOfAnAct);
  asker.background = [threads = threads_, line = TenantThreads::line_of(asking.account->number(), number)](
                         std::function<void()> task) { threads->post(line, std::move(task)); };
  return asker;
}

void Daemon::Impl::act(uint64_t number, const AskHints& ask, Descriptor&) {
  const Client& client = greeted(number);
  hints_->ask(
      {.account = client.account->number(), .user = client.view.user, .opened = opened_},
      [this, number] { return asker_of_hints(number); },
      [this, number, wish = ask.wish](HintService::Answer answer) {
        if (answer.refusal) return say_later(number, Refused{.wish = wish, .error = *std::move(answer.refusal)});
        say_later(number, HintsGiven{.wish = wish, .hints = std::move(answer.hints)});
      });
}

void Daemon::Impl::act(uint64_t number, const RankGone& gone, Descriptor&) {
  const Client& client = greeted(number);
  const auto session = client.sessions.find(gone.session);
  if (session != client.sessions.end()) sessions_.lose(session->second.key, gone.rank);
}

// ---- Sessions ----

// Nobody is taken for another user's.
std::string Daemon::Impl::tenant_of(const Client& client, const std::string& name) {
  const std::string user = std::to_string(client.connection->identity().user);
  return name.empty() ? user : user + "/" + name;
}

// Returns why the old ones stay, or nothing.
std::string Daemon::Impl::apply_rules() {
  try {
    rules_.reload();
  } catch (const Error& error) {
    events_.warn(std::string("the rules stay as they are, since the new ones cannot be used: ") + error.what());
    return error.what();
  }
  events_.note("rules of version " + std::to_string(rules_.rules().version()) + " are in force");
  for (const std::string& each : rules_.warnings()) events_.warn(each);
  tell_terms();
  return {};
}

// Sessions that are open get what the rules grant now.
void Daemon::Impl::tell_terms() {
  for (const auto& [client_number, client] : clients_) {
    for (const auto& [number, session] : client.sessions) {
      client.memory->worker().post([number = number, memory = client.memory,
                                    grant = rules_.grant(session.subject, session.tenant),
                                    calls = rules_.grants_of_calls(session.subject, session.tenant)] {
        Session* const found = memory->find(number);
        if (found == nullptr) return;
        found->set_terms(grant, calls);
        memory->rouse(number);
      });
    }
  }
}

std::vector<HostCard> Daemon::Impl::cards_of(const OpenSession& open) const {
  std::vector<HostCard> cards;
  for (const std::string& host : open.hosts) {
    const HostCard* const card = cards_.find(host);
    const auto unread = cards_.unread().find(host);
    if (card == nullptr && unread != cards_.unread().end()) {
      throw Error(ErrorCode::mismatch, "the card of host '" + host + "' in " + options_.world + ": " + unread->second);
    }
    if (card == nullptr) {
      throw Error(ErrorCode::not_found, "no daemon of host '" + host + "' has come to " + options_.world +
                                            (cards_.trouble().empty() ? "" : "; " + cards_.trouble()));
    }
    if (card->texts != HostCard::kTexts) {
      throw Error(ErrorCode::mismatch, "the service of host " + in_quotes(card->name) + " and that of host " +
                                           in_quotes(name_of_host()) +
                                           " are of versions whose sessions do not understand each other (" +
                                           std::to_string(card->texts) + " and " + std::to_string(HostCard::kTexts) +
                                           "); upgrade the daemons of all hosts to one version");
    }
    cards.push_back(*card);
  }
  return cards;
}

// First the daemons of its hosts are looked for. Then its plans' source is made, on the thread of its user: for many
// ranks that takes long. Then it gets what the rules grant, and lanes. Then its worker makes it.
void Daemon::Impl::act(uint64_t number, const OpenSession& open, Descriptor&) {
  Client& client = greeted(number);
  bool is_possible = false;
  try {
    if (is_handing_over_) throw Error(ErrorCode::peer_lost, "a newer daemon has taken the place of this one");
    expect_possible(open, host_);
    is_possible = true;
    if (client.sessions.contains(open.session)) throw Error(ErrorCode::invalid_usage, "its session is open already");
    ClientSession session{.key = OpenSessions::key_of(open), .mark = next_opening_++};
    session.session_charge = client.account->take(Resource::sessions, 1);
    session.ranks_charge = client.account->take(Resource::ranks, open.members.size());
    const auto opening = std::make_shared<Opening>();
    opening->client = number;
    opening->mark = session.mark;
    opening->session.wish = open;
    opening->session.wish.name = label_of(open.name);
    opening->session.client = client.view;
    opening->session.account = client.account;
    client.sessions.emplace(open.session, std::move(session));
    cards_.look(open.hosts, [this, opening] { plan(opening); });
  } catch (const Error& error) {
    ++refused_["session"];
    if (is_possible) tell_refusal(open, error, client.view.user);
    client.connection->say(Refused{.wish = open.wish, .error = error});
  }
}

// Those of its communicator that are on their way, or wait for it, need not wait in vain. They are told before the
// client is, whose end they hear of otherwise first.
void Daemon::Impl::tell_refusal(const OpenSession& wish, const Error& error, uint32_t user) {
  const OpenSessions::Key key = OpenSessions::key_of(wish);
  // It may ask once more: of a newer daemon, or when the daemons of other hosts are known.
  const bool may_come_again = error.code() == ErrorCode::peer_lost || error.code() == ErrorCode::not_found;
  if (may_come_again || !sessions_.refuse(key)) return;
  const Error told(error.code(),
                   "rank " + std::to_string(wish.rank) + " of " + in_quotes(wish.name) +
                       " is refused by the service of host " + in_quotes(name_of_host()) + ": " + error.message(),
                   error.where());
  for (const RanksOnHost& member : members_of(wish)) {
    if (!mesh_->knows(member.host)) continue;  // it has not been looked for, and is not worth it
    try {
      mesh_->send_to_all(member.host, encode(SessionRefusal{.communicator = key.first, .error = told, .user = user}));
    } catch (const Error& trouble) {
      BANYAN_LOG(info) << "host " << in_quotes(member.host) << " does not hear of it: " << trouble.what();
    }
  }
}

// Null where it was closed, or its client has gone.
Daemon::Impl::ClientSession* Daemon::Impl::session_of(const Opening& opening) {
  const auto client = clients_.find(opening.client);
  if (client == clients_.end()) return nullptr;
  const auto session = client->second.sessions.find(opening.session.wish.session);
  const bool is_it = session != client->second.sessions.end() && session->second.mark == opening.mark;
  return is_it ? &session->second : nullptr;
}

void Daemon::Impl::refuse(const Opening& opening, const Error& error) {
  const OpenSession& wish = opening.session.wish;
  Client& client = clients_.at(opening.client);
  ++refused_["session"];
  take_back(opening);
  tell_refusal(wish, error, client.view.user);
  client.connection->say(Refused{.wish = wish.wish, .error = error});
}

void Daemon::Impl::plan(const std::shared_ptr<Opening>& opening) {
  if (session_of(*opening) == nullptr) return;
  const Client& client = clients_.at(opening->client);
  try {
    opening->session.cards = cards_of(opening->session.wish);
    for (const HostCard& card : opening->session.cards) mesh_->meet(card);
    threads_->post(TenantThreads::line_of(client.account->number(), opening->client),
                   [this, opening, mailbox = reactor_.mailbox(), files = maker_.files,
                    alive = std::weak_ptr<WorkerClient>(client.memory)] {
                     if (alive.expired()) return;  // nobody waits for it
                     SessionOpening& made = opening->session;
                     try {
                       made.source = source_for(made.wish, made.cards, *files);
                     } catch (...) {
                       opening->failure = current_error();
                     }
                     mailbox->post([this, opening] { open_planned(opening); });
                   });
  } catch (const Error& error) {
    refuse(*opening, error);
  }
}

void Daemon::Impl::open_planned(const std::shared_ptr<Opening>& opening) {
  ClientSession* const session = session_of(*opening);
  if (session == nullptr) return;
  if (const auto closing = closing_.find(session->key); closing != closing_.end()) {
    closing->second.push_back(opening);
    return;
  }
  const std::shared_ptr<WorkerClient> memory = clients_.at(opening->client).memory;
  try {
    if (opening->failure) throw Error(*opening->failure);
    grant_and_connect(opening->client, *session, opening->session);
    memory->worker().post([this, opening, memory] { open_on_worker(opening, *memory); });
    sessions_.hand_over(session->key);
  } catch (const Error& error) {
    refuse(*opening, error);
  }
}

void Daemon::Impl::grant_and_connect(uint64_t number, ClientSession& session, SessionOpening& opening) {
  const Client& client = clients_.at(number);
  const OpenSession& wish = opening.wish;
  const uint32_t user = client.view.user, account = client.account->number();
  session.subject = subject_of(client.connection->identity(), wish.tenant);
  session.subject.communicator = wish.name;
  for (const HostCard& card : opening.cards) session.subject.hosts.push_back(card.name);
  opening.tenant = session.tenant = tenant_of(client, wish.tenant);
  opening.grant = granted(wish, session.subject, session.tenant);
  opening.calls = rules_.grants_of_calls(session.subject, session.tenant);
  opening.lanes = std::make_shared<SessionLanes>(reactor_, connects_, OpenSessions::called(session.key.first, user),
                                                 targets_of(wish, opening.cards),
                                                 [this] { return acceptor_ && acceptor_->has_strangers(); });
  // Not for a session that has ended meanwhile.
  opening.background = [threads = threads_, line = TenantThreads::line_of(account, number),
                        alive = std::weak_ptr<SessionLanes>(opening.lanes)](std::function<void()> task) {
    threads->post(line, [task = std::move(task), alive] {
      if (!alive.expired()) task();
    });
  };
  opening.budget = client.memory->worker().budget();
  follow_daemons(cards_, opening.lanes, wish, opening.cards);
  sessions_.add(session.key, doors_of(client, opening));
  session.is_open = true;
  ++opened_;
  std::vector<uint32_t> ranks(wish.members.size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  opening.connector = std::make_unique<run::LaneConnector>(
      reactor_.mailbox(), opening.lanes->connections(),
      run::ConnectionGroup{.communicator = kGroup,
                           .members = std::move(ranks),
                           .own = wish.rank,
                           .at_most = std::chrono::milliseconds(std::min(wish.timeout, wish.join_timeout))});
}

OpenSessions::Doors Daemon::Impl::doors_of(const Client& client, const SessionOpening& opening) {
  const auto on_session = [this, number = opening.wish.session, memory = client.memory](const auto& act) {
    memory->worker().post([number, memory, act] {
      Session* const session = memory->find(number);
      if (session == nullptr) return;
      act(*session);
      memory->rouse(number);
    });
  };
  return {
      .lanes = opening.lanes,
      .hear = [on_session](const std::string& text) { on_session([text](Session& session) { session.hear(text); }); },
      .set_rate = [on_session](uint64_t rate) { on_session([rate](Session& session) { session.set_rate(rate); }); },
      .fail = [on_session](const Error& why) { on_session([why](Session& session) { session.fail(why); }); }};
}

// As if it had never been wished for.
void Daemon::Impl::take_back(const Opening& opening) {
  const auto client = clients_.find(opening.client);
  if (client == clients_.end()) return;
  const auto session = client->second.sessions.find(opening.session.wish.session);
  if (session == client->second.sessions.end() || session->second.mark != opening.mark) return;
  if (session->second.is_open) sessions_.remove(session->second.key);
  client->second.sessions.erase(session);
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

void Daemon::Impl::open_on_worker(const std::shared_ptr<Opening>& opening, WorkerClient& memory) {
  SessionOpening& session = opening->session;
  const OpenSession& wish = session.wish;
  const uint64_t number = opening->client;
  SessionHooks hooks;
  hooks.tell_all = teller_of(wish, session.client.user);
  hooks.report = [this](const Activity& activity) {
    reactor_.mailbox()->post([this, activity] { steward_->report(activity); });
  };
  hooks.failed = [this, number, session = wish.session, account = session.account,
                  who = "rank " + std::to_string(wish.rank) + " of " + in_quotes(wish.name)](const Error& error) {
    say_later(number, SessionFailed{.session = session, .error = error});
    reactor_.mailbox()->post(
        [this, account, who, why = std::string(error.what())] { note(*account, who + " failed: " + why); });
  };
  try {
    memory.add(wish.session, maker_.make(session, memory.regions(), std::move(hooks)));
    say_later(number, SessionOpened{.wish = wish.wish, .means = "TCP"});
  } catch (const Error& error) {
    // Its end is a message to the lanes, which therefore last until the next one.
    session.connector.reset();
    reactor_.mailbox()->post([this, opening, error] {
      take_back(*opening);
      tell_refusal(opening->session.wish, error, opening->session.client.user);
    });
    say_later(number, Refused{.wish = wish.wish, .error = error});
  }
}

}  // namespace banyan::service
