#include "banyan/run/agent/agent_connections.h"

#include <algorithm>
#include <array>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

// A frame: length of the body, kind, number, number of the last message that the sender has from the receiver; the
// body. A frame of kind kConfirmation carries no message.
constexpr size_t kHeadBytes = 4 + 1 + 8 + 8;
constexpr uint8_t kConfirmation = 0;
constexpr uint64_t kConfirmEvery = 64;
constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{500};
constexpr uint32_t kMostHangUps = 4;

}  // namespace

AgentConnections::AgentConnections(Timers& timers, Dialer& dialer, Options options, Events events)
    : timers_(timers), dialer_(dialer), options_(options), entries_(options.size), events_(std::move(events)) {}

AgentConnections::~AgentConnections() {
  for (Entry& entry : entries_) drop(entry);
}

// ---- Sending ----

void AgentConnections::send(uint32_t rank, Message message) {
  Entry& entry = entries_[rank];
  if (entry.is_closed || rank == options_.own) return;
  if (entry.unconfirmed_bytes + message.body.size() > kMaxQueued) return;
  entry.unconfirmed_bytes += message.body.size();
  entry.unconfirmed.push_back(std::move(message));
  if (entry.connections.empty()) {
    call(rank);
    return;
  }
  Connection& connection = *entry.connections.front();
  write(entry, connection, entry.first_unconfirmed + entry.unconfirmed.size() - 1, entry.unconfirmed.back());
  flush(connection);
}

void AgentConnections::write(Entry& entry, Connection& connection, uint64_t number, const Message& message) {
  connection.out += WireWriter()
                        .number(static_cast<uint32_t>(message.body.size()))
                        .number(message.kind)
                        .number(number)
                        .number(entry.received)
                        .take();
  connection.out += message.body;
  entry.confirmed = entry.received;
}

void AgentConnections::confirm(Entry& entry) {
  Connection& connection = *entry.connections.front();
  write(entry, connection, 0, {.kind = kConfirmation, .body = ""});
  flush(connection);
}

// By a connection that is the first from now on. The confirmation also says that this rank knows the peer, so that a
// connection that breaks before a word is one on which the peer has hung up.
void AgentConnections::send_unconfirmed(Entry& entry) {
  confirm(entry);
  Connection& connection = *entry.connections.front();
  uint64_t number = entry.first_unconfirmed;
  for (const Message& message : entry.unconfirmed) write(entry, connection, number++, message);
  flush(connection);
}

// A broken connection is found out by reading.
void AgentConnections::flush(Connection& connection) {
  size_t done = 0;
  while (done < connection.out.size()) {
    const size_t sent = connection.stream->send(std::string_view(connection.out).substr(done));
    if (sent == 0) break;
    done += sent;
  }
  connection.out.erase(0, done);
  if (connection.awaits_room == !connection.out.empty()) return;
  connection.awaits_room = !connection.out.empty();
  connection.stream->await_room(connection.awaits_room);
}

// ---- Calling ----

void AgentConnections::call(uint32_t rank) {
  Entry& entry = entries_[rank];
  if (entry.is_closed || !entry.connections.empty() || entry.call || entry.pause) return;
  entry.next_pause = kFirstPause;
  entry.calling_since = timers_.now();
  call_now(rank);
}

void AgentConnections::call_now(uint32_t rank) {
  Entry& entry = entries_[rank];
  entry.pause.reset();
  entry.call = dialer_.dial(rank, [this, rank](Dialer::Outcome outcome) { call_ended(rank, std::move(outcome)); });
}

void AgentConnections::call_ended(uint32_t rank, Dialer::Outcome outcome) {
  Entry& entry = entries_[rank];
  entry.call.reset();
  if (outcome.stream != nullptr) {
    try {
      adopt(rank, std::move(outcome.stream));
      return;
    } catch (const Error& error) {  // no descriptors left
      outcome.failure = error.what();
    }
  }
  entry.trouble = outcome.failure;
  if (entry.connections.empty()) call_again(rank, outcome.nobody_listens);  // else it has called this rank meanwhile
}

void AgentConnections::call_again(uint32_t rank, bool nobody_listens) {
  Entry& entry = entries_[rank];
  if (nobody_listens || entry.will_end || timers_.now() - entry.calling_since > options_.lost_after) {
    lose(rank,
         entry.break_reason.empty() ? "it cannot be reached (" + entry.trouble + ")" : std::string(entry.break_reason));
    return;
  }
  entry.pause = timers_.after(entry.next_pause, [this, rank] { call_now(rank); });
  entry.next_pause = std::min(entry.next_pause * 2, kLongestPause);
}

bool AgentConnections::adopt(uint32_t rank, std::unique_ptr<ByteStream> stream) {
  Entry& entry = entries_[rank];
  if (entry.is_closed) return false;
  const auto connection = std::make_shared<Connection>();
  connection->stream = std::move(stream);
  connection->stream->watch([this, rank, weak = std::weak_ptr(connection)](bool may_receive, bool may_send) {
    if (const auto served = weak.lock()) serve(rank, served, may_receive, may_send);
  });
  entry.connections.push_back(connection);
  if (entry.connections.size() > 1) return true;
  end_pause(entry);
  entry.break_reason.clear();
  send_unconfirmed(entry);
  events_.connected(rank);
  return true;
}

void AgentConnections::close(uint32_t rank) {
  entries_[rank].is_closed = true;
  drop(entries_[rank]);
}

// ---- Receiving ----

void AgentConnections::serve(uint32_t rank, const std::shared_ptr<Connection>& connection, bool may_receive,
                             bool may_send) {
  if (connection->stream == nullptr) return;
  if (may_send) flush(*connection);
  if (!may_receive) return;
  if (const std::optional<std::string> broken = read(rank, connection)) connection_broke(rank, connection, *broken);
}

std::optional<std::string> AgentConnections::read(uint32_t rank, const std::shared_ptr<Connection>& connection) {
  std::array<char, 16384> buffer;
  while (connection->stream != nullptr) {  // a message may make this rank close it
    const ByteStream::Received received = connection->stream->receive(buffer);
    if (received.is_over) return received.why;
    if (received.count == 0) break;
    connection->in.append(buffer.data(), received.count);
    if (std::optional<std::string> broken = deliver(rank, connection)) return broken;
  }
  Entry& entry = entries_[rank];
  if (!entry.connections.empty() && entry.received - entry.confirmed >= kConfirmEvery) confirm(entry);
  return {};
}

std::optional<std::string> AgentConnections::deliver(uint32_t rank, const std::shared_ptr<Connection>& connection) {
  size_t begin = 0;
  std::optional<std::string> broken;
  while (connection->in.size() - begin >= kHeadBytes && connection->stream != nullptr) {
    WireReader head(std::string_view(connection->in).substr(begin, kHeadBytes));
    const size_t size = head.number<uint32_t>();
    const uint8_t kind = head.number<uint8_t>();
    const uint64_t number = head.number<uint64_t>(), confirmed = head.number<uint64_t>();
    if (size > kMaxMessage) {
      broken = "it sends nonsense";
      break;
    }
    if (connection->in.size() - begin < kHeadBytes + size) break;
    Message message{.kind = kind, .body = connection->in.substr(begin + kHeadBytes, size)};
    begin += kHeadBytes + size;
    connection->has_received = true;
    entries_[rank].hang_ups = 0;
    try {
      forget_confirmed(entries_[rank], confirmed);
      if (kind != kConfirmation) take(rank, number, std::move(message));
    } catch (const Error& error) {
      broken = "it sends nonsense (" + error.message() + ")";
      break;
    }
  }
  connection->in.erase(0, begin);
  if (broken) entries_[rank].will_end = true;  // it would do so again
  return broken;
}

void AgentConnections::take(uint32_t rank, uint64_t number, Message message) {
  Entry& entry = entries_[rank];
  if (number <= entry.received) return;  // sent once more, over a new connection
  if (number > entry.received + 1) throw Error(ErrorCode::invalid_input, "a message is missing");
  entry.received = number;
  events_.received(rank, std::move(message));
}

void AgentConnections::forget_confirmed(Entry& entry, uint64_t up_to) {
  if (up_to >= entry.first_unconfirmed + entry.unconfirmed.size()) {
    throw Error(ErrorCode::invalid_input, "it confirms what was not sent");
  }
  for (; entry.first_unconfirmed <= up_to; ++entry.first_unconfirmed) {
    entry.unconfirmed_bytes -= entry.unconfirmed.front().body.size();
    entry.unconfirmed.pop_front();
  }
}

// ---- Losing ----

void AgentConnections::connection_broke(uint32_t rank, const std::shared_ptr<Connection>& connection,
                                        const std::string& why) {
  Entry& entry = entries_[rank];
  if (connection->stream == nullptr) return;  // it was closed meanwhile
  const bool was_first = entry.connections.front() == connection;
  connection->stream.reset();
  std::erase(entry.connections, connection);
  if (!connection->has_received) ++entry.hang_ups;
  if (!entry.connections.empty()) {
    if (!was_first) return;
    return send_unconfirmed(entry);  // the other connection carries on
  }
  if (entry.will_end || entry.hang_ups >= kMostHangUps) return lose(rank, why);
  entry.break_reason = why;
  if (entry.hang_ups <= 1) {
    entry.next_pause = kFirstPause;
    entry.calling_since = timers_.now();
  }
  if (!entry.call && !entry.pause) call_again(rank, false);
}

void AgentConnections::lose(uint32_t rank, const std::string& why) {
  entries_[rank].is_closed = true;
  drop(entries_[rank]);
  events_.lost(rank, why);
}

void AgentConnections::end_pause(Entry& entry) {
  if (entry.pause) timers_.cancel(*entry.pause);
  entry.pause.reset();
}

void AgentConnections::drop(Entry& entry) {
  for (const std::shared_ptr<Connection>& connection : entry.connections) connection->stream.reset();
  entry.connections.clear();
  entry.unconfirmed.clear();
  entry.unconfirmed_bytes = 0;
  if (entry.call) dialer_.cancel(*entry.call);
  entry.call.reset();
  end_pause(entry);
}

}  // namespace banyan::run
