#include "banyan/service/daemon/mesh.h"

#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/record/log.h"
#include "banyan/run/seal/sealed_stream.h"

namespace banyan::service {
namespace {

using std::chrono::milliseconds;

constexpr uint8_t kMessage = 1;
// Of a peer that cannot be reached, between looks at whether its card is still the same.
constexpr milliseconds kLook{1000};
// A host that has acknowledged nothing for so long breaks its connection; calls go on.
constexpr milliseconds kStreamLostAfter{5000};

// The numbers of the two daemons in their connections.
uint32_t number_of(const std::string& host, const std::string& other) { return host < other ? 0 : 1; }

run::Greeting greeting_for(const HostCard& callee, const HostCard& caller) {
  return {.purpose = Mesh::kPurpose,
          .payload = run::WireWriter()
                         .text(callee.host)
                         .number(callee.incarnation)
                         .text(caller.host)
                         .number(caller.incarnation)
                         .take()};
}

std::vector<run::SocketDialer::Peer> dialed(const HostCard& card, const HostCard& own) {
  std::vector<run::SocketDialer::Peer> peers(2);
  peers[number_of(card.host, own.host)] = {
      .target = {.addresses = card.addresses, .port = card.port, .local_address = ""},
      .greeting = greeting_for(card, own)};
  return peers;
}

}  // namespace

struct Mesh::Peer {
  Peer(run::Reactor& reactor, run::OutgoingConnects& connects, const HostCard& own, const HostCard& card,
       run::AgentConnections::Events events)
      : timers(reactor),
        incarnation(card.incarnation),
        number(number_of(card.host, own.host)),
        dialer(reactor, connects, kStreamLostAfter, dialed(card, own)),
        connections(reactor, dialer, {.own = 1 - number, .size = 2}, std::move(events)) {}
  ~Peer() {
    if (next_look) timers.cancel(*next_look);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  run::Timers& timers;
  const uint64_t incarnation;
  const uint32_t number;
  bool is_reached = true;
  std::optional<run::Reactor::Timer> next_look;
  run::SocketDialer dialer;
  run::AgentConnections connections;
};

Mesh::Mesh(run::Reactor& reactor, run::OutgoingConnects& connects, HostDirectory& directory, HostCard own,
           Events events)
    : reactor_(reactor), connects_(connects), directory_(directory), own_(std::move(own)), events_(std::move(events)) {}

Mesh::~Mesh() {
  if (next_to_self_) reactor_.cancel(*next_to_self_);
}

Mesh::Peer& Mesh::make_peer(const HostCard& card) {
  run::AgentConnections::Events events{
      .received = [this, host = card.host](uint32_t,
                                           const run::Message& message) { events_.received(host, message.body); },
      .connected = [this, host = card.host](uint32_t) { note_reach(host, true); },
      .heard = [](uint32_t) {},
      .unreachable = [this, host = card.host](uint32_t, const std::string&, bool) { note_reach(host, false); },
      .refused = [this, host = card.host](uint32_t) { note_reach(host, false); },
      .lost =
          [this, host = card.host](uint32_t, const std::string& why) {
            BANYAN_LOG(warning) << "the daemon of host " << in_quotes(host) << " is given up: " << why;
            look_after(host, milliseconds(0));
          },
      .noticed = [](uint32_t, const std::string&) {}};
  std::unique_ptr<Peer>& peer = peers_[card.host];
  peer = std::make_unique<Peer>(reactor_, connects_, own_, card, std::move(events));
  return *peer;
}

void Mesh::send(const std::string& host, std::string message) {
  if (host == own_.host) {
    to_self_.push_back(std::move(message));
    if (!next_to_self_) next_to_self_ = reactor_.after(milliseconds(0), [this] { hear_self(); });
    return;
  }
  const auto known = peers_.find(host);
  Peer* peer = known == peers_.end() ? nullptr : known->second.get();
  if (peer == nullptr) {
    const std::optional<HostCard> card = directory_.find(host);
    if (!card) throw Error(ErrorCode::not_found, "no daemon of host " + in_quotes(host) + " has come");
    peer = &make_peer(*card);
  }
  peer->connections.send(peer->number, {.kind = kMessage, .body = std::move(message)});
}

void Mesh::hear_self() {
  next_to_self_.reset();
  for (const std::string& message : std::exchange(to_self_, {})) events_.received(own_.host, message);
}

std::optional<std::string> Mesh::admit(const run::Greeting& greeting, run::Admitted& connection) {
  run::WireReader payload(greeting.payload);
  const std::string callee = payload.text();
  const auto callee_incarnation = payload.number<uint64_t>();
  const std::string caller = payload.text();
  const auto caller_incarnation = payload.number<uint64_t>();
  payload.end();
  if (callee != own_.host || callee_incarnation != own_.incarnation) {
    return "the daemon of host " + in_quotes(caller) + " called for another than this one";
  }
  if (caller == own_.host) return "a daemon called that says to be of this host";
  auto known = peers_.find(caller);
  if (known == peers_.end() || known->second->incarnation != caller_incarnation) {
    const std::optional<HostCard> card = directory_.find(caller);
    if (!card || card->incarnation != caller_incarnation) {
      return "a daemon called that says to be of host " + in_quotes(caller) + ", whose card does not say so";
    }
    if (known != peers_.end()) drop(caller, "it has begun anew");
    make_peer(*card);
    known = peers_.find(caller);
  }
  Peer& peer = *known->second;
  auto stream = std::make_unique<run::SocketStream>(reactor_, std::move(connection.socket), kStreamLostAfter);
  peer.connections.adopt(peer.number, std::make_unique<run::SealedStream>(std::move(stream), connection.keys));
  return std::nullopt;
}

void Mesh::meet(const HostCard& card) {
  const auto known = peers_.find(card.host);
  if (known != peers_.end() && known->second->incarnation != card.incarnation) drop(card.host, "it has begun anew");
}

bool Mesh::reaches(const std::string& host) const {
  const auto found = peers_.find(host);
  return found == peers_.end() || found->second->is_reached;
}

void Mesh::note_reach(const std::string& host, bool is_reached) {
  const auto found = peers_.find(host);
  if (found == peers_.end()) return;  // it is being made
  found->second->is_reached = is_reached;
  if (!is_reached) look_after(host, kLook);
}

// Those who call this may be the peer's own connections, which a drop ends.
void Mesh::look_after(const std::string& host, milliseconds pause) {
  const auto found = peers_.find(host);
  if (found == peers_.end() || found->second->next_look) return;
  found->second->next_look = reactor_.after(pause, [this, host] { look(host); });
}

void Mesh::look(const std::string& host) {
  Peer& peer = *peers_.at(host);
  peer.next_look.reset();
  if (peer.connections.is_connected(peer.number)) return;
  std::optional<HostCard> card;
  try {
    card = directory_.find(host);
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "whether the daemon of host " << in_quotes(host) << " is still there: " << error.what();
    return look_after(host, kLook);
  }
  if (!card) return drop(host, "it has ended");
  if (card->incarnation != peer.incarnation) return drop(host, "it has begun anew");
  look_after(host, kLook);
}

void Mesh::drop(const std::string& host, const std::string& why) {
  if (peers_.erase(host) > 0) events_.lost(host, why);
}

}  // namespace banyan::service
