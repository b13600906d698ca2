#include "banyan/service/daemon/session_opener.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/agent/lane_connector.h"
#include "banyan/run/record/log.h"
#include "banyan/service/session/peer_cards.h"

namespace banyan::service {
namespace {

// All sessions of a communicator say the same to each other's daemons.
constexpr uint64_t kGroup = 1;

OpenSessions::Doors doors_of(const Client& client, const SessionOpening& opening) {
  const SessionPlace place{.memory = client.memory, .number = opening.wish.session};
  return {
      .lanes = opening.lanes,
      .receive = [place](const std::string& text) { place.act([text](Session& session) { session.receive(text); }); },
      .set_rate = [place](uint64_t rate) { place.act([rate](Session& session) { session.set_rate(rate); }); },
      .fail = [place](const Error& why) { place.act([why](Session& session) { session.fail(why); }); }};
}

}  // namespace

void SessionOpener::hand_over(bool hands_over) {
  is_handing_over_ = hands_over;
  if (!hands_over) sessions_.go_on();
}

// ---- Sessions end ----

void SessionOpener::close(Client& client, const CloseSession& close) {
  auto node = client.sessions.extract(close.session);
  // Its opening was refused, or finds that it has been closed.
  if (node.empty() || !node.mapped().is_open) return;
  // Its quota is free now, so that the client may open another one at once.
  closing_.try_emplace(node.mapped().key);
  client.memory->worker().post([this, close, key = node.mapped().key, memory = client.memory] {
    memory->remove(close.session);
    core_.reactor.mailbox()->post([this, key] {
      sessions_.remove(key);
      const auto closed = closing_.extract(key);
      if (closed.empty()) return;
      for (const auto& opening : closed.mapped()) open_planned(opening);
    });
  });
}

void SessionOpener::lose(const Client& client, const RankGone& gone) {
  const auto session = client.sessions.find(gone.session);
  if (session != client.sessions.end()) sessions_.lose(session->second.key, gone.rank);
}

void SessionOpener::forget(const Client& client) {
  for (const auto& [number, session] : client.sessions) {
    if (session.is_open) sessions_.remove(session.key);
  }
}

// ---- Sessions begin ----

void SessionOpener::open(uint64_t number, Client& client, const OpenSession& wish) {
  bool is_possible = false;
  try {
    if (is_handing_over_) throw Error(ErrorCode::peer_lost, "a newer daemon has taken the place of this one");
    expect_possible(wish, core_.host);
    is_possible = true;
    if (client.sessions.contains(wish.session)) throw Error(ErrorCode::invalid_usage, "its session is open already");
    ClientSession session{.key = OpenSessions::key_of(wish), .mark = next_mark_++};
    session.session_charge = client.account->take(Resource::sessions, 1);
    session.ranks_charge = client.account->take(Resource::ranks, wish.members.size());
    const auto opening = std::make_shared<Opening>();
    opening->client = number;
    opening->mark = session.mark;
    opening->session.wish = wish;
    opening->session.wish.name = label_of(wish.name);
    opening->session.client = client.view;
    opening->session.account = client.account;
    client.sessions.emplace(wish.session, std::move(session));
    cluster_.cards().look(wish.hosts, [this, opening] { plan(opening); });
  } catch (const Error& error) {
    core_.events.count_refusal("session");
    if (is_possible) send_refusal(wish, error, client.view.user);
    client.connection->send(Refused{.wish = wish.wish, .error = error});
  }
}

// Those of its communicator that are on their way, or wait for it, need not wait in vain. They are told before the
// client is, whose end they hear of otherwise first.
void SessionOpener::send_refusal(const OpenSession& wish, const Error& error, uint32_t user) {
  const OpenSessions::Key key = OpenSessions::key_of(wish);
  // It may ask once more: of a newer daemon, or when the daemons of other hosts are known.
  const bool may_come_again = error.code() == ErrorCode::peer_lost || error.code() == ErrorCode::not_found;
  if (may_come_again || !sessions_.refuse(key)) return;
  const Error told(error.code(),
                   "rank " + std::to_string(wish.rank) + " of " + in_quotes(wish.name) +
                       " is refused by the service of host " + in_quotes(name_of_host()) + ": " + error.message(),
                   error.where());
  Mesh& mesh = cluster_.mesh();
  for (const RanksOnHost& member : members_of(wish)) {
    if (!mesh.knows(member.host)) continue;  // it has not been looked for, and is not worth it
    try {
      mesh.send_to_all(member.host, encode(SessionRefusal{.communicator = key.first, .error = told, .user = user}));
    } catch (const Error& trouble) {
      BANYAN_LOG(info) << "host " << in_quotes(member.host) << " does not hear of it: " << trouble.what();
    }
  }
}

// Null where it was closed, or its client has gone.
ClientSession* SessionOpener::session_of(const Opening& opening) {
  Client* const client = clients_.find(opening.client);
  if (client == nullptr) return nullptr;
  const auto session = client->sessions.find(opening.session.wish.session);
  const bool is_it = session != client->sessions.end() && session->second.mark == opening.mark;
  return is_it ? &session->second : nullptr;
}

void SessionOpener::refuse(const Opening& opening, const Error& error) {
  const OpenSession& wish = opening.session.wish;
  const Client& client = clients_.at(opening.client);
  core_.events.count_refusal("session");
  take_back(opening);
  send_refusal(wish, error, client.view.user);
  client.connection->send(Refused{.wish = wish.wish, .error = error});
}

// As if it had never been wished for.
void SessionOpener::take_back(const Opening& opening) {
  const ClientSession* const session = session_of(opening);
  if (session == nullptr) return;
  if (session->is_open) sessions_.remove(session->key);
  clients_.at(opening.client).sessions.erase(opening.session.wish.session);
}

std::vector<HostCard> SessionOpener::cards_of(const OpenSession& open) const {
  const CardCache& known = cluster_.cards();
  const std::string& world = core_.options.world;
  std::vector<HostCard> cards;
  for (const std::string& host : open.hosts) {
    const HostCard* const card = known.find(host);
    const auto unread = known.unread().find(host);
    if (card == nullptr && unread != known.unread().end()) {
      throw Error(ErrorCode::mismatch, "the card of host '" + host + "' in " + world + ": " + unread->second);
    }
    if (card == nullptr) {
      throw Error(ErrorCode::not_found, "no daemon of host '" + host + "' has come to " + world +
                                            (known.trouble().empty() ? "" : "; " + known.trouble()));
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

void SessionOpener::plan(const std::shared_ptr<Opening>& opening) {
  if (session_of(*opening) == nullptr) return;
  const Client& client = clients_.at(opening->client);
  try {
    opening->session.cards = cards_of(opening->session.wish);
    for (const HostCard& card : opening->session.cards) cluster_.mesh().meet(card);
    core_.threads->post(TenantThreads::line_of(client.account->number(), opening->client),
                        [this, opening, mailbox = core_.reactor.mailbox(), files = core_.maker.files,
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

void SessionOpener::open_planned(const std::shared_ptr<Opening>& opening) {
  ClientSession* const session = session_of(*opening);
  if (session == nullptr) return;
  if (const auto closing = closing_.find(session->key); closing != closing_.end()) {
    closing->second.push_back(opening);
    return;
  }
  CHECK(!session->is_open) << "rank " << session->key.second;
  const Client& client = clients_.at(opening->client);
  try {
    if (opening->failure) throw Error(*opening->failure);
    grant(client, *session, opening->session);
    connect(*opening, client, *session);
    client.memory->worker().post([this, opening, memory = client.memory] { open_on_worker(opening, *memory); });
    sessions_.hand_over(session->key);
  } catch (const Error& error) {
    refuse(*opening, error);
  }
}

// Throws Error{invalid_usage} when the rules or the operator deny it.
void SessionOpener::grant(const Client& client, ClientSession& session, SessionOpening& opening) const {
  const OpenSession& wish = opening.wish;
  session.subject = subject_of(client.connection->identity(), wish.tenant);
  session.subject.communicator = wish.name;
  for (const HostCard& card : opening.cards) session.subject.hosts.push_back(card.name);
  opening.tenant = session.tenant = client.tenant_called(wish.tenant);
  if (core_.rules.is_draining()) {
    throw Error(ErrorCode::invalid_usage, "the operator drains this host; no communicators are opened here");
  }
  opening.grant = core_.rules.grant(session.subject, session.tenant);
  opening.calls = core_.rules.grants_of_calls(session.subject, session.tenant);
  const Grant& grant = opening.grant;
  if (grant.logs) {
    BANYAN_LOG(info) << "rule " << in_quotes(grant.rule) << ": " << session.subject.user << " opens "
                     << in_quotes(wish.name) << ", rank " << wish.rank << " of " << wish.members.size();
  }
  if (!grant.denial) return;
  throw Error(ErrorCode::invalid_usage, "the rules of the service deny this communicator: " + *grant.denial +
                                            " (rule " + in_quotes(grant.rule) + ")");
}

void SessionOpener::connect(Opening& opening, const Client& client, ClientSession& session) {
  SessionOpening& made = opening.session;
  const OpenSession& wish = made.wish;
  made.lanes = std::make_shared<SessionLanes>(
      core_.reactor, cluster_.connects(), OpenSessions::called(session.key.first, client.view.user),
      targets_of(wish, made.cards), [this] { return cluster_.has_strangers(); });
  // Not for a session that has ended meanwhile.
  made.background = [threads = core_.threads, line = TenantThreads::line_of(client.account->number(), opening.client),
                     alive = std::weak_ptr<SessionLanes>(made.lanes)](std::function<void()> task) {
    threads->post(line, [task = std::move(task), alive] {
      if (!alive.expired()) task();
    });
  };
  made.budget = client.memory->worker().budget();
  follow_daemons(cluster_.cards(), made.lanes, wish, made.cards);
  sessions_.add(session.key, doors_of(client, made));
  session.is_open = true;
  ++opened_;
  std::vector<uint32_t> ranks(wish.members.size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  made.connector = std::make_unique<run::LaneConnector>(
      core_.reactor.mailbox(), made.lanes->connections(),
      run::ConnectionGroup{.communicator = kGroup,
                           .members = std::move(ranks),
                           .own = wish.rank,
                           .at_most = std::chrono::milliseconds(std::min(wish.timeout, wish.join_timeout))});
}

void SessionOpener::open_on_worker(const std::shared_ptr<Opening>& opening, WorkerClient& memory) {
  SessionOpening& session = opening->session;
  const OpenSession& wish = session.wish;
  const uint64_t number = opening->client;
  SessionHooks hooks;
  hooks.send_to_all = sender_of(wish, session.client.user);
  hooks.report = [this](const Activity& activity) {
    core_.reactor.mailbox()->post([this, activity] { cluster_.report(activity); });
  };
  hooks.failed = [this, number, session = wish.session, account = session.account,
                  who = "rank " + std::to_string(wish.rank) + " of " + in_quotes(wish.name)](const Error& error) {
    clients_.send_later(number, SessionFailed{.session = session, .error = error});
    core_.reactor.mailbox()->post(
        [this, account, who, why = std::string(error.what())] { core_.record(*account, who + " failed: " + why); });
  };
  try {
    memory.add(wish.session, core_.maker.make(session, memory.regions(), std::move(hooks)));
    clients_.send_later(number, SessionOpened{.wish = wish.wish, .means = "TCP"});
  } catch (const Error& error) {
    // Its end is a message to the lanes, which therefore last until the next one.
    session.connector.reset();
    core_.reactor.mailbox()->post([this, opening, error] {
      core_.events.count_refusal("session");
      take_back(*opening);
      send_refusal(opening->session.wish, error, opening->session.client.user);
    });
    clients_.send_later(number, Refused{.wish = wish.wish, .error = error});
  }
}

// To be called from a worker's thread.
std::function<void(const std::string&)> SessionOpener::sender_of(const OpenSession& open, uint32_t user) {
  return [this, communicator = OpenSessions::key_of(open).first, members = members_of(open),
          user](const std::string& text) {
    core_.reactor.mailbox()->post([this, communicator, members, text, user] {
      for (const RanksOnHost& member : members) {
        try {
          cluster_.mesh().send_to_all(
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

}  // namespace banyan::service
