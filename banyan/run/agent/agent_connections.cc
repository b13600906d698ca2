#include "banyan/run/agent/agent_connections.h"

#include <algorithm>
#include <array>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

using std::chrono::milliseconds;

// A frame: length of the body, kind, number, number of the last message that the sender has from the receiver; the
// body. Frames of these two kinds carry no message.
constexpr size_t kHeadBytes = 4 + 1 + 8 + 8;
constexpr uint8_t kConfirmation = 0, kNotice = 255;
constexpr uint64_t kConfirmEvery = 64;
constexpr milliseconds kConfirmAfter{50}, kResendAfter{300}, kLongestResend{5000};
constexpr milliseconds kFirstPause{5}, kLongestPause{500}, kLongestReminderPause{5000};
// Between the first calls over two paths, so that the best one is used where it works.
constexpr milliseconds kBetweenPaths{50};
constexpr uint32_t kMostWithSpares = 128;

void expect_short(const Message& message) {
  if (message.body.size() <= AgentConnections::kMaxMessage) return;
  throw Error(ErrorCode::unsupported, "a message of " + std::to_string(message.body.size()) +
                                          " bytes is not sent; the most is " +
                                          std::to_string(AgentConnections::kMaxMessage));
}

}  // namespace

AgentConnections::AgentConnections(Timers& timers, Dialer& dialer, Options options, Events events)
    : timers_(timers), dialer_(dialer), options_(options), entries_(options.size), events_(std::move(events)) {}

AgentConnections::~AgentConnections() {
  for (Entry& entry : entries_) drop(entry);
}

// ---- Sending ----

void AgentConnections::send(uint32_t rank, Message message) {
  expect_short(message);
  Entry& entry = entries_[rank];
  if (entry.is_closed || rank == options_.own) return;
  if (entry.unconfirmed_bytes + message.body.size() > kMaxQueued) {
    if (!std::exchange(entry.drops, true) && events_.dropped) events_.dropped(rank, entry.unconfirmed_bytes);
    return;
  }
  entry.unconfirmed_bytes += message.body.size();
  entry.unconfirmed.push_back(std::move(message));
  if (entry.connections.empty()) {
    call(rank);
    return;
  }
  catch_up(entry, *entry.connections.front());
  watch_confirmations(rank);
}

void AgentConnections::send_over_all(uint32_t rank, Message message) {
  send(rank, std::move(message));
  Entry& entry = entries_[rank];
  if (entry.is_closed) return;
  for (size_t i = 1; i < entry.connections.size(); ++i) confirm(entry, *entry.connections[i]);
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

void AgentConnections::confirm(Entry& entry, Connection& connection) {
  write(entry, connection, 0, {.kind = kConfirmation, .body = ""});
  flush(connection);
}

// Writes what the peer has not confirmed and this connection has not carried yet.
void AgentConnections::catch_up(Entry& entry, Connection& connection) {
  const uint64_t end = entry.first_unconfirmed + entry.unconfirmed.size();
  for (uint64_t number = std::max(entry.first_unconfirmed, connection.written + 1); number < end; ++number) {
    write(entry, connection, number, entry.unconfirmed[number - entry.first_unconfirmed]);
    connection.written = number;
  }
  flush(connection);
}

// A broken connection is found out by reading.
void AgentConnections::flush(Connection& connection) {
  if (connection.stream == nullptr) return;
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

// ---- Several ways ----

void AgentConnections::watch_confirmations(uint32_t rank) {
  Entry& entry = entries_[rank];
  if (entry.resend.is_set() || entry.unconfirmed.empty()) return;
  entry.next_resend = kResendAfter;
  entry.resend.set_after(timers_, kResendAfter, [this, rank, first = entry.first_unconfirmed] { resend(rank, first); });
}

void AgentConnections::resend(uint32_t rank, uint64_t first) {
  Entry& entry = entries_[rank];
  if (entry.unconfirmed.empty()) return;
  if (entry.first_unconfirmed != first) return watch_confirmations(rank);
  for (const std::shared_ptr<Connection>& connection : entry.connections) catch_up(entry, *connection);
  if (entry.connections.size() > 1) {
    std::rotate(entry.connections.begin(), entry.connections.begin() + 1, entry.connections.end());
  }
  entry.is_stalled = entry.next_resend > kResendAfter;
  start_calls(rank);
  entry.next_resend = std::min(2 * entry.next_resend, kLongestResend);
  entry.resend.set_after(timers_, entry.next_resend, [this, rank, first] { resend(rank, first); });
}

// By the connection over which a message came: where it came twice, that was not heard, and all are used.
void AgentConnections::confirm_later(uint32_t rank, const std::shared_ptr<Connection>& connection, bool came_twice) {
  Entry& entry = entries_[rank];
  entry.confirms_over_all = entry.confirms_over_all || came_twice;
  if (entry.confirmation.is_set()) return;
  entry.confirmation.set_after(timers_, kConfirmAfter, [this, rank, weak = std::weak_ptr(connection)] {
    Entry& own = entries_[rank];
    if (std::exchange(own.confirms_over_all, false)) {
      for (const std::shared_ptr<Connection>& each : own.connections) confirm(own, *each);
    } else if (const auto used = weak.lock(); used != nullptr && own.received > own.confirmed) {
      confirm(own, *used);
    }
  });
}

// ---- Calling ----

void AgentConnections::call(uint32_t rank) {
  if (!entries_[rank].is_closed && entries_[rank].connections.empty()) start_calls(rank);
}

void AgentConnections::remind(uint32_t rank) {
  Entry& entry = entries_[rank];
  if (!entry.is_closed || entry.notice.empty() || !entry.connections.empty()) return;
  entry.is_reminded = true;
  start_calls(rank);
}

bool AgentConnections::has_path(const Entry& entry, uint32_t path) const {
  return std::ranges::any_of(entry.connections, [path](const auto& connection) { return connection->path == path; });
}

// Over all paths over which there is no connection that works.
void AgentConnections::start_calls(uint32_t rank) {
  Entry& entry = entries_[rank];
  const uint32_t paths = dialer_.paths(rank);
  milliseconds delay{0};
  for (uint32_t path = 0; path < paths; ++path) {
    if (has_path(entry, path) && !entry.is_stalled) continue;
    Attempts& attempts = entry.attempts[path];
    if (attempts.call || attempts.pause.is_set()) continue;
    const milliseconds longest = entry.is_closed ? kLongestReminderPause : kLongestPause;
    const milliseconds pause =
        delay + (attempts.failures > 0 ? std::min(attempts.next_pause, longest) : milliseconds(0));
    delay += kBetweenPaths;
    if (pause.count() == 0) {
      call_now(rank, path);
    } else {
      attempts.pause.set_after(timers_, pause, [this, rank, path] { call_now(rank, path); });
    }
  }
}

void AgentConnections::call_now(uint32_t rank, uint32_t path) {
  Attempts& attempts = entries_[rank].attempts[path];
  attempts.was_refused = false;
  attempts.call = dialer_.dial(
      rank, path, [this, rank, path](Dialer::Outcome outcome) { call_ended(rank, path, std::move(outcome)); });
}

void AgentConnections::call_ended(uint32_t rank, uint32_t path, Dialer::Outcome outcome) {
  Attempts& attempts = entries_[rank].attempts[path];
  attempts.call.reset();
  // A connection counts as a success only when something has come over it.
  attempts.next_pause = attempts.failures == 0 ? kFirstPause : std::min(2 * attempts.next_pause, kLongestReminderPause);
  ++attempts.failures;
  attempts.was_answered =
      attempts.was_answered || outcome.stream != nullptr || outcome.nobody_listens || outcome.somebody_listens;
  if (outcome.stream != nullptr) {
    try {
      add(rank, std::move(outcome.stream), path);
      return;
    } catch (const Error& error) {  // no descriptors left
      outcome.failure = error.what();
    }
  }
  attempts.was_refused = outcome.nobody_listens;
  entries_[rank].trouble = outcome.failure;
  judge(rank, outcome);
  call_again(rank, path);
}

// Tells what a call that failed says of the peer.
void AgentConnections::judge(uint32_t rank, const Dialer::Outcome& outcome) {
  Entry& entry = entries_[rank];
  bool is_refused = entry.connections.empty();
  for (uint32_t path = 0; path < dialer_.paths(rank); ++path) {
    const auto found = entry.attempts.find(path);
    is_refused = is_refused && found != entry.attempts.end() && found->second.was_refused;
  }
  if (entry.is_closed) {
    if (is_refused) entry.is_reminded = false;
    return;
  }
  if (outcome.somebody_listens) events_.sign_of_life(rank);
  if (entry.connections.empty() && !std::exchange(entry.is_reported, true))
    events_.unreachable(rank, entry.trouble, false);
  if (is_refused && !entry.is_closed) events_.refused(rank);
  judge_silence(rank);
}

void AgentConnections::judge_silence(uint32_t rank) {
  Entry& entry = entries_[rank];
  if (!events_.unanswered || entry.connections.empty()) return;
  uint32_t calls = UINT32_MAX;
  for (uint32_t path = 0; path < dialer_.paths(rank); ++path) {
    const auto found = entry.attempts.find(path);
    if (found == entry.attempts.end() || found->second.was_answered) return;
    calls = std::min(calls, found->second.failures);
  }
  if (calls > std::exchange(entry.unanswered, calls)) events_.unanswered(rank, calls, entry.trouble);
}

void AgentConnections::call_again(uint32_t rank, uint32_t path) {
  Entry& entry = entries_[rank];
  if (entry.is_closed && !entry.is_reminded) return;
  if (entry.will_end && entry.connections.empty()) return lose(rank, "it cannot be reached (" + entry.trouble + ")");
  Attempts& attempts = entry.attempts[path];
  if (attempts.call || attempts.pause.is_set()) return;
  if (!entry.connections.empty() && !entry.is_stalled && attempts.failures >= kSpareTries) return;
  attempts.next_pause = std::min(attempts.next_pause, entry.is_closed ? kLongestReminderPause : kLongestPause);
  attempts.pause.set_after(timers_, attempts.next_pause, [this, rank, path] { call_now(rank, path); });
}

// Those over the same path.
void AgentConnections::replace_others(Entry& entry, const std::shared_ptr<Connection>& connection) {
  std::erase_if(entry.connections, [&](const std::shared_ptr<Connection>& other) {
    if (other == connection || other->path != connection->path) return false;
    other->stream.reset();
    return true;
  });
}

bool AgentConnections::adopt(uint32_t rank, std::unique_ptr<ByteStream> stream) {
  return add(rank, std::move(stream), std::nullopt);
}

bool AgentConnections::add(uint32_t rank, std::unique_ptr<ByteStream> stream, std::optional<uint32_t> path) {
  Entry& entry = entries_[rank];
  if (entry.is_closed && entry.notice.empty()) return false;
  const auto connection = std::make_shared<Connection>();
  connection->stream = std::move(stream);
  connection->path = path;
  connection->stream->watch([this, rank, weak = std::weak_ptr(connection)](bool may_receive, bool may_send) {
    if (const auto served = weak.lock()) serve(rank, served, may_receive, may_send);
  });
  const bool is_first = entry.connections.empty();
  entry.connections.push_back(connection);
  if (entry.is_closed) {
    write(entry, *connection, 0, {.kind = kNotice, .body = entry.notice});
    flush(*connection);
    return true;
  }
  for (auto& [each, attempts] : entry.attempts) attempts.was_refused = false;
  if (!path) {  // then calling is up to the peer
    for (auto& [each, attempts] : entry.attempts) attempts.pause.cancel();
  }
  // Besides, it says that this rank knows the peer.
  confirm(entry, *connection);
  if (path) replace_others(entry, connection);
  if (std::exchange(entry.is_stalled, false)) {  // until this one has had its time, too
    std::rotate(entry.connections.begin(), entry.connections.end() - 1, entry.connections.end());
    catch_up(entry, *connection);
  }
  if (path && dialer_.paths(rank) > 1 && options_.size <= kMostWithSpares) start_calls(rank);
  if (!is_first) return true;
  entry.is_reported = false;
  catch_up(entry, *connection);
  watch_confirmations(rank);
  events_.connected(rank);
  return true;
}

void AgentConnections::close(uint32_t rank, std::string notice) {
  Entry& entry = entries_[rank];
  if (std::exchange(entry.is_closed, true)) return;
  if (notice.empty()) return drop(entry);
  const std::vector<std::shared_ptr<Connection>> connections = std::exchange(entry.connections, {});
  drop(entry);
  entry.notice = std::move(notice);
  entry.connections = connections;
  for (const std::shared_ptr<Connection>& connection : connections) {
    write(entry, *connection, 0, {.kind = kNotice, .body = entry.notice});
    flush(*connection);
  }
}

void AgentConnections::close_all() noexcept {
  for (Entry& entry : entries_) {
    entry.is_closed = true;
    drop(entry);
  }
}

// ---- Receiving ----

void AgentConnections::serve(uint32_t rank, const std::shared_ptr<Connection>& connection, bool may_receive,
                             bool may_send) {
  if (connection->stream == nullptr) return;
  if (may_send) flush(*connection);
  if (!may_receive) return;
  if (const std::optional<Ending> broken = read(rank, connection)) connection_broke(rank, connection, *broken);
}

std::optional<AgentConnections::Ending> AgentConnections::read(uint32_t rank,
                                                               const std::shared_ptr<Connection>& connection) {
  std::array<char, 16384> buffer;
  while (connection->stream != nullptr) {  // a message may make this rank close it
    const ByteStream::Received received = connection->stream->receive(buffer);
    if (received.is_over) {
      return Ending{.why = received.why, .is_orderly = received.is_orderly, .is_said = received.is_said};
    }
    if (received.count == 0) break;
    connection->in.append(buffer.data(), received.count);
    if (std::optional<Ending> broken = deliver(rank, connection)) return broken;
  }
  Entry& entry = entries_[rank];
  if (!entry.is_closed && connection->stream != nullptr && entry.received - entry.confirmed >= kConfirmEvery) {
    confirm(entry, *connection);
  }
  return {};
}

std::optional<AgentConnections::Ending> AgentConnections::deliver(uint32_t rank,
                                                                  const std::shared_ptr<Connection>& connection) {
  size_t begin = 0;
  std::optional<Ending> broken;
  while (connection->in.size() - begin >= kHeadBytes && connection->stream != nullptr) {
    WireReader head(std::string_view(connection->in).substr(begin, kHeadBytes));
    const size_t size = head.number<uint32_t>();
    const uint8_t kind = head.number<uint8_t>();
    Frame frame{.number = head.number<uint64_t>(), .confirmed = head.number<uint64_t>(), .message = {.kind = kind}};
    if (size > kMaxMessage) {
      broken = Ending{.why = "it sends nonsense"};
      break;
    }
    if (connection->in.size() - begin < kHeadBytes + size) break;
    frame.message.body = connection->in.substr(begin + kHeadBytes, size);
    begin += kHeadBytes + size;
    try {
      take_frame(rank, connection, std::move(frame));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_input) throw;  // it is not to blame
      broken = Ending{.why = "it sends nonsense (" + error.message() + ")"};
      break;
    }
  }
  connection->in.erase(0, begin);
  if (broken) entries_[rank].will_end = true;  // it would do so again
  return broken;
}

void AgentConnections::take_frame(uint32_t rank, const std::shared_ptr<Connection>& connection, Frame frame) {
  Entry& entry = entries_[rank];
  auto& [number, confirmed, message] = frame;
  connection->has_received = true;
  if (message.kind == kNotice) return events_.noticed(rank, std::move(message.body));
  if (entry.is_closed) return;  // nothing that it says counts any more
  std::erase_if(entry.attempts, [](const auto& each) { return !each.second.call && !each.second.pause.is_set(); });
  events_.sign_of_life(rank);
  forget_confirmed(entry, confirmed);
  if (message.kind == kConfirmation) return;
  const bool came_before = number <= entry.received;  // sent once more, over another connection
  if (number > entry.received + 1) throw Error(ErrorCode::invalid_input, "a message is missing");
  confirm_later(rank, connection, came_before);
  if (came_before) return;
  entry.received = number;
  events_.received(rank, std::move(message));
}

void AgentConnections::forget_confirmed(Entry& entry, uint64_t up_to) {
  if (up_to >= entry.first_unconfirmed + entry.unconfirmed.size()) {
    throw Error(ErrorCode::invalid_input, "it confirms what was not sent");
  }
  if (entry.first_unconfirmed <= up_to) entry.is_stalled = entry.drops = false;
  for (; entry.first_unconfirmed <= up_to; ++entry.first_unconfirmed) {
    entry.unconfirmed_bytes -= entry.unconfirmed.front().body.size();
    entry.unconfirmed.pop_front();
  }
}

// ---- Breaking ----

void AgentConnections::connection_broke(uint32_t rank, const std::shared_ptr<Connection>& connection,
                                        const Ending& ending) {
  Entry& entry = entries_[rank];
  if (connection->stream == nullptr) return;  // it was closed meanwhile
  connection->stream.reset();
  const bool was_first = entry.connections.front() == connection;
  std::erase(entry.connections, connection);
  if (entry.is_closed) {
    // Who has heard the notice hangs up, and says so.
    if (ending.is_said) entry.is_reminded = false;
    if (entry.is_reminded && entry.connections.empty()) start_calls(rank);
    return;
  }
  if (!entry.connections.empty()) {
    if (was_first) catch_up(entry, *entry.connections.front());  // the other connection carries on
    if (connection->path && connection->has_received) start_calls(rank);
    return;
  }
  if (entry.will_end) return lose(rank, ending.why);
  if (!std::exchange(entry.is_reported, true)) events_.unreachable(rank, ending.why, ending.is_orderly);
  if (!entry.is_closed) start_calls(rank);
}

void AgentConnections::lose(uint32_t rank, const std::string& why) {
  entries_[rank].is_closed = true;
  drop(entries_[rank]);
  events_.lost(rank, why);
}

void AgentConnections::drop(Entry& entry) noexcept {
  for (const std::shared_ptr<Connection>& connection : entry.connections) connection->stream.reset();
  entry.connections.clear();
  entry.unconfirmed.clear();
  entry.unconfirmed_bytes = 0;
  for (auto& [path, attempts] : entry.attempts) {
    if (attempts.call) dialer_.cancel(*attempts.call);
  }
  entry.attempts.clear();
  entry.confirmation.cancel();
  entry.resend.cancel();
}

}  // namespace banyan::run
