#include "banyan/service/cluster/mesh.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/socket_address.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/record/log.h"
#include "banyan/run/seal/sealed_stream.h"

namespace banyan::service {
namespace {

using std::chrono::milliseconds;

constexpr uint8_t kMessage = 1;
// Of a peer that cannot be reached, between looks at whether its card is still the same.
constexpr milliseconds kLook{1000};
// Of a peer that sends nonsense, before both begin anew: doubled with each round.
constexpr milliseconds kAnew{1000};
constexpr uint64_t kMostDoublings = 5;
// A host that has acknowledged nothing for so long breaks its connection; calls go on.
constexpr milliseconds kStreamLostAfter{5000};

// The numbers of the two daemons in their connections.
uint32_t number_of(const DaemonName& daemon, const DaemonName& other) { return daemon < other ? 0 : 1; }

DaemonName name_of(const HostCard& card) { return {.host = card.host, .incarnation = card.incarnation}; }

// Daemons before 0.3 know no rounds: the first one is not said.
run::Greeting greeting_for(const HostCard& callee, const HostCard& caller, uint64_t round) {
  run::WireWriter payload;
  payload.number(callee.incarnation).number(caller.incarnation);
  if (round > 0) payload.number(round);
  return {.purpose = Mesh::kPurpose, .payload = payload.take()};
}

uint64_t read_round(run::WireReader& payload) {
  const uint64_t round = payload.is_at_end() ? 0 : payload.number<uint64_t>();
  payload.end();
  return round;
}

std::vector<run::SocketDialer::Peer> dialed(const HostCard& card, const HostCard& own, uint64_t round) {
  std::vector<run::SocketDialer::Peer> peers(2);
  peers[number_of(name_of(card), name_of(own))] = {
      .target = {.addresses = card.addresses, .port = card.port, .local_address = "", .name = card.host},
      .greeting = greeting_for(card, own, round)};
  return peers;
}

}  // namespace

struct Mesh::Peer {
  Peer(run::Reactor& reactor, run::OutgoingConnects& connects, const HostCard& own, const HostCard& card,
       uint64_t its_round, run::AgentConnections::Events events)
      : timers(reactor),
        round(its_round),
        number(number_of(name_of(card), name_of(own))),
        addresses(card.addresses),
        dialer(reactor, connects, kStreamLostAfter, dialed(card, own, round)),
        connections(reactor, dialer, {.own = 1 - number, .size = 2}, std::move(events)) {}
  ~Peer() {
    if (next_look) timers.cancel(*next_look);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  run::Timers& timers;
  const uint64_t round;
  const uint32_t number;
  const std::vector<std::string> addresses;
  bool is_reached = true, called_from_elsewhere = false;
  bool is_given_up = false;  // it has sent nonsense
  std::optional<run::Reactor::Timer> next_look;
  run::SocketDialer dialer;
  run::AgentConnections connections;
};

Mesh::Mesh(run::Reactor& reactor, run::OutgoingConnects& connects, CardCache& cards, HostCard own, Events events)
    : reactor_(reactor),
      connects_(connects),
      card_cache_(cards),
      own_(std::move(own)),
      events_(std::move(events)),
      cards_({{own_.host, own_}}) {}

Mesh::~Mesh() {
  if (next_to_self_) reactor_.cancel(*next_to_self_);
}

Mesh::Peer& Mesh::peer_at(const HostCard& daemon, uint64_t round) {
  const DaemonName name = name_of(daemon);
  std::unique_ptr<Peer>& peer = peers_[name];
  if (peer) return *peer;
  run::AgentConnections::Events events{
      .received = [this, name](uint32_t, const run::Message& message) { events_.received(name, message.body); },
      .connected = [this, name](uint32_t) { record_reach(name, true); },
      .sign_of_life = [](uint32_t) {},
      .unreachable = [this, name](uint32_t, const std::string&, bool) { record_reach(name, false); },
      .refused = [this, name](uint32_t) { record_reach(name, false); },
      .dropped =
          [name](uint32_t, size_t waiting) {
            BANYAN_LOG(warning) << "what the daemon of host " << in_quotes(name.host)
                                << " is to hear is dropped until it hears more: " << waiting << " bytes wait for it";
          },
      .lost =
          [this, name](uint32_t, const std::string& why) {
            BANYAN_LOG(warning) << "the daemon of host " << in_quotes(name.host) << " is given up for a while: " << why;
            give_up(name);
          },
      .noticed = [](uint32_t, const std::string&) {}};
  peer = std::make_unique<Peer>(reactor_, connects_, own_, daemon, round, std::move(events));
  return *peer;
}

const HostCard& Mesh::card_of(const std::string& host) {
  const auto known = cards_.find(host);
  if (known != cards_.end()) return known->second;
  const HostCard* const card = card_cache_.find(host);
  if (card == nullptr) throw Error(ErrorCode::not_found, "no daemon of host " + in_quotes(host) + " has come");
  return cards_.insert_or_assign(host, *card).first->second;
}

void Mesh::send(const std::string& host, std::string message) { send_to(card_of(host), std::move(message)); }

void Mesh::send_to_all(const std::string& host, const std::string& message) {
  for (const HostCard& daemon : card_of(host).daemons()) send_to(daemon, message);
}

void Mesh::send_to(const HostCard& daemon, std::string message) {
  if (name_of(daemon) == name_of(own_)) {
    to_self_.push_back(std::move(message));
    if (!next_to_self_) next_to_self_ = reactor_.after(milliseconds(0), [this] { receive_self(); });
    return;
  }
  Peer& peer = peer_at(daemon);
  peer.connections.send(peer.number, {.kind = kMessage, .body = std::move(message)});
}

void Mesh::send_to_one(const DaemonName& daemon, std::string message) {
  if (const auto host = cards_.find(daemon.host); host != cards_.end()) {
    for (const HostCard& each : host->second.daemons()) {
      if (each.incarnation == daemon.incarnation) return send_to(each, std::move(message));
    }
  }
  const auto known = peers_.find(daemon);
  if (known == peers_.end())
    throw Error(ErrorCode::peer_lost, "the daemon of host " + in_quotes(daemon.host) + " has ended");
  known->second->connections.send(known->second->number, {.kind = kMessage, .body = std::move(message)});
}

// Its connections call this, so that it stays until it is looked at.
void Mesh::give_up(const DaemonName& daemon) {
  Peer& peer = *peers_.at(daemon);
  peer.is_given_up = true;
  peer.is_reached = false;
  if (peer.next_look) reactor_.cancel(*std::exchange(peer.next_look, std::nullopt));
  look_after(daemon, kAnew * (1 << std::min(peer.round, kMostDoublings)));
}

// False when the daemon's host does not name it any more.
bool Mesh::begin_anew(const DaemonName& daemon, uint64_t round, const std::string& why) {
  drop(daemon, why);
  const auto host = cards_.find(daemon.host);
  if (host == cards_.end()) return false;
  for (const HostCard& each : host->second.daemons()) {
    if (each.incarnation != daemon.incarnation) continue;
    peer_at(each, round);
    return true;
  }
  return false;
}

void Mesh::receive_self() {
  next_to_self_.reset();
  for (const std::string& message : std::exchange(to_self_, {})) events_.received(name_of(own_), message);
}

std::optional<std::string> Mesh::admit(const run::Greeting& greeting, run::Admitted& connection) {
  run::WireReader payload(greeting.payload);
  DaemonName callee{.host = greeting.to}, caller{.host = greeting.from};
  callee.incarnation = payload.number<uint64_t>();
  caller.incarnation = payload.number<uint64_t>();
  const uint64_t round = read_round(payload);
  if (callee != name_of(own_)) {
    return "the daemon of host " + in_quotes(caller.host) + " called for another than this one";
  }
  if (caller == callee) return "a daemon called that says to be this one";
  if (introduce(caller)) return adopt(caller, round, connection);
  constexpr size_t kMostStrangers = 64;
  if (strangers_ >= kMostStrangers) return "too many daemons call that are not known";
  ++strangers_;
  card_cache_.look({caller.host}, [this, caller, round, held = std::make_shared<run::Admitted>(std::move(connection))] {
    --strangers_;
    if (introduce(caller)) {
      adopt(caller, round, *held);
      return;
    }
    BANYAN_LOG(warning) << "a daemon called that says to be of host " << in_quotes(caller.host)
                        << ", whose card does not say so";
  });
  return std::nullopt;
}

// Whether its host's card, as far as that is known, names it.
bool Mesh::introduce(const DaemonName& caller) {
  if (peers_.contains(caller)) return true;
  const auto known = cards_.find(caller.host);
  const HostCard* card = known == cards_.end() ? nullptr : &known->second;
  if (card == nullptr || !card->has(caller.incarnation)) card = card_cache_.find(caller.host);
  if (card == nullptr || !card->has(caller.incarnation)) return false;
  meet(HostCard(*card));
  for (const HostCard& daemon : card_of(caller.host).daemons()) {
    if (name_of(daemon) == caller) peer_at(daemon);
  }
  return peers_.contains(caller);
}

// A caller of a later round has given this daemon up, or has been given up by what was this daemon's state; one of an
// earlier round is called, and so told.
std::optional<std::string> Mesh::adopt(const DaemonName& caller, uint64_t round, run::Admitted& connection) {
  if (round > peers_.at(caller)->round && !begin_anew(caller, round, "it has begun anew with this one")) {
    return "a daemon called that its host does not name any more";
  }
  Peer& peer = *peers_.at(caller);
  if (round < peer.round) {
    peer.connections.call(peer.number);
    return "the daemon of host " + in_quotes(caller.host) + " has not heard that both have begun anew";
  }
  const std::optional<run::SocketAddress> from = run::SocketAddress::beyond(connection.socket.get());
  peer.called_from_elsewhere =
      !from || std::find(peer.addresses.begin(), peer.addresses.end(), from->ip()) == peer.addresses.end();
  auto stream = std::make_unique<run::SocketStream>(reactor_, std::move(connection.socket), kStreamLostAfter);
  peer.connections.adopt(peer.number, std::make_unique<run::SealedStream>(std::move(stream), connection.keys));
  return std::nullopt;
}

void Mesh::meet(const HostCard& card) {
  // A directory that was asked before this daemon published itself, or that others cannot read, knows less.
  if (card.host == own_.host && !card.has(own_.incarnation)) return;
  const bool is_succeeded = card_of(own_.host).incarnation != own_.incarnation;
  if (card.host == own_.host && card.incarnation == own_.incarnation && is_succeeded) return;
  cards_.insert_or_assign(card.host, card);
  std::vector<DaemonName> ended;
  for (auto peer = peers_.lower_bound({.host = card.host}); peer != peers_.end() && peer->first.host == card.host;
       ++peer) {
    if (!card.has(peer->first.incarnation)) ended.push_back(peer->first);
  }
  for (const DaemonName& daemon : ended) drop(daemon, "it has begun anew");
}

bool Mesh::reaches(const std::string& host) const {
  const auto card = cards_.find(host);
  if (card == cards_.end()) return true;
  const auto found = peers_.find(name_of(card->second));
  return found == peers_.end() || !found->second || found->second->is_reached;
}

bool Mesh::is_where_its_card_says(const DaemonName& daemon) const {
  const auto found = peers_.find(daemon);
  return found == peers_.end() || !found->second || !found->second->called_from_elsewhere;
}

bool Mesh::is_own(const std::string& host) const {
  return host == own_.host && cards_.at(host).incarnation == own_.incarnation;
}

void Mesh::record_reach(const DaemonName& daemon, bool is_reached) {
  const auto found = peers_.find(daemon);
  if (found == peers_.end() || !found->second) return;  // it is being made
  found->second->is_reached = is_reached;
  if (!is_reached) look_after(daemon, kLook);
}

// Those who call this may be the peer's own connections, which a drop ends.
void Mesh::look_after(const DaemonName& daemon, milliseconds pause) {
  const auto found = peers_.find(daemon);
  if (found == peers_.end() || !found->second || found->second->next_look) return;
  found->second->next_look = reactor_.after(pause, [this, daemon] { look(daemon); });
}

void Mesh::look(const DaemonName& daemon) {
  Peer& peer = *peers_.at(daemon);
  peer.next_look.reset();
  if (peer.connections.is_connected(peer.number)) return;
  card_cache_.look({daemon.host}, [this, daemon] {
    const auto found = peers_.find(daemon);
    if (found == peers_.end() || found->second->connections.is_connected(found->second->number)) return;
    const HostCard* const card = card_cache_.find(daemon.host);
    if (card == nullptr && card_cache_.trouble().empty() && !card_cache_.unread().contains(daemon.host)) {
      if (daemon.host != own_.host) cards_.erase(daemon.host);
      return drop(daemon, "it has ended");
    }
    if (card != nullptr) meet(HostCard(*card));
    const auto left = peers_.find(daemon);
    if (left == peers_.end() || !left->second->is_given_up) return look_after(daemon, kLook);
    if (begin_anew(daemon, left->second->round + 1, "it has sent nonsense; both begin anew")) {
      Peer& next = *peers_.at(daemon);
      next.connections.call(next.number);
    }
  });
}

void Mesh::drop(const DaemonName& daemon, const std::string& why) {
  if (peers_.erase(daemon) > 0) events_.lost(daemon.host, why);
}

}  // namespace banyan::service
