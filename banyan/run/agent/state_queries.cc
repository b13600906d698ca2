#include "banyan/run/agent/state_queries.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "banyan/run/agent/messages.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

// For the hub to say that it passes a wish on.
constexpr std::chrono::milliseconds kHubTime{200};
constexpr size_t kBroadcastsRemembered = 256;
constexpr size_t kMostSentBytes = size_t{1} << 20;  // bytes of a state or a reason that others are told

uint8_t flag(bool on) { return on ? 1 : 0; }

// The beginning of a question, and of a broadcast. The asker gives the number.
struct Question {
  uint32_t asker = 0;
  uint64_t number = 0, communicator = 0;

  WireWriter written() const {
    WireWriter writer;
    writer.number(asker).number(number).number(communicator);
    return writer;
  }
  static Question read(WireReader& reader) {
    Question question{.asker = reader.number<uint32_t>()};
    question.number = reader.number<uint64_t>();
    question.communicator = reader.number<uint64_t>();
    return question;
  }
};

Message ask_message(const Question& question, bool pass_on) {
  return {message::ask, question.written().number(flag(pass_on)).take()};
}

// Programs write these, so they may be as long as memory is.
std::string_view head_of(std::string_view text) { return text.substr(0, kMostSentBytes); }

Message broadcast_message(const Question& question, const std::string& reason, bool pass_on) {
  return {message::broadcast, question.written().text(head_of(reason)).number(flag(pass_on)).take()};
}

// Of the rank's state hook; nothing where the communicator is not known.
PeerReport report_of(std::optional<std::string> state) {
  return {.health = state ? Health::alive : Health::unknown, .text = std::move(state).value_or("")};
}

}  // namespace

StateQueries::StateQueries(Timers& timers, AgentConnections& connections, const Hub& hub, const Liveness& liveness,
                           HookBoard& hooks, uint32_t own)
    : timers_(timers), connections_(connections), hub_(hub), liveness_(liveness), hooks_(hooks), own_(own) {}

std::vector<uint32_t> StateQueries::others() const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    if (rank != own_ && !liveness_.is_gone(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void StateQueries::ask(uint64_t communicator, TimeSource::TimePoint deadline, Done done) {
  const uint64_t number = ++next_number_;
  Query& query = queries_[number];
  query.communicator = communicator;
  query.done = std::move(done);
  query.reports.resize(liveness_.size());
  for (const uint32_t rank : others()) query.pending.insert(rank);
  const std::optional<std::string> own = hooks_.state(communicator);
  query.reports[own_] = report_of(own);
  query.end_timer.set(timers_, deadline, [this, number] { finish(number); });
  if (hub_.is_own() || !hub_.answers()) {
    ask_directly(number);
  } else {
    const auto now = timers_.now();
    query.direct_timer.set(timers_, now + (deadline - now) / 2, [this, number] { ask_directly(number); });
    connections_.send(hub_.rank(), ask_message({own_, number, communicator}, true));
  }
  finish_if_done(number);
}

void StateQueries::ask_directly(uint64_t number) {
  const Query& query = queries_.at(number);
  for (const uint32_t rank : query.pending)
    connections_.send(rank, ask_message({own_, number, query.communicator}, false));
}

void StateQueries::changed() {
  std::vector<uint64_t> numbers;
  for (const auto& [number, query] : queries_) numbers.push_back(number);
  for (const uint64_t number : numbers) finish_if_done(number);
}

// Those who are silent may still answer, but nobody waits for them alone.
void StateQueries::finish_if_done(uint64_t number) {
  const std::set<uint32_t>& pending = queries_.at(number).pending;
  if (std::ranges::all_of(pending, [this](uint32_t rank) { return liveness_.state(rank) != Health::alive; })) {
    finish(number);
  }
}

void StateQueries::finish(uint64_t number) {
  auto node = queries_.extract(number);
  Query& query = node.mapped();
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    PeerReport& report = query.reports[rank];
    if (report.health != Health::silent) continue;
    report.text = liveness_.why(rank);
    if (liveness_.is_gone(rank)) report.health = liveness_.state(rank);
  }
  query.done(std::move(query.reports));
}

Message StateQueries::answer_to(uint32_t asker, uint64_t number, uint64_t communicator) {
  const std::optional<std::string> state = hooks_.state(communicator);
  return {message::answer, WireWriter()
                               .number(asker)
                               .number(number)
                               .number(own_)
                               .number(flag(state.has_value()))
                               .text(state ? head_of(*state) : std::string_view())
                               .take()};
}

bool StateQueries::received(uint32_t rank, const Message& message) {
  switch (message.kind) {
    case message::ask:
      received_ask(rank, message);
      return true;
    case message::answer:
      received_answer(message);
      return true;
    case message::broadcast:
      received_broadcast(rank, message);
      return true;
    case message::broadcast_confirmed:
      broadcasts_.erase(WireReader(message.body).number<uint64_t>());
      return true;
    default:
      return false;
  }
}

void StateQueries::received_ask(uint32_t rank, const Message& message) {
  WireReader reader(message.body);
  const Question question = Question::read(reader);
  const bool pass_on = reader.number<uint8_t>() != 0;
  connections_.send(rank, answer_to(question.asker, question.number, question.communicator));
  if (!pass_on) return;
  for (const uint32_t other : others()) {
    if (other != question.asker) connections_.send(other, ask_message(question, false));
  }
}

void StateQueries::received_answer(const Message& message) {
  WireReader reader(message.body);
  const uint32_t asker = reader.number<uint32_t>();
  const uint64_t number = reader.number<uint64_t>();
  const uint32_t rank = reader.number<uint32_t>();
  const bool is_known = reader.number<uint8_t>() != 0;
  std::string text = reader.text();
  if (asker != own_) {
    if (asker < liveness_.size()) connections_.send(asker, message);
    return;
  }
  const auto found = queries_.find(number);
  if (found == queries_.end() || found->second.pending.erase(rank) == 0) return;
  found->second.reports[rank] = report_of(is_known ? std::optional(std::move(text)) : std::nullopt);
  finish_if_done(number);
}

void StateQueries::broadcast(uint64_t communicator, const std::string& reason) {
  const uint64_t number = ++next_number_;
  if (hub_.is_own() || !hub_.answers()) {
    broadcast_directly(number, communicator, reason);
  } else {
    Broadcast& broadcast = broadcasts_[number];
    broadcast.communicator = communicator;
    broadcast.reason = reason;
    broadcast.timer.set_after(timers_, kHubTime, [this, number] {
      const auto node = broadcasts_.extract(number);
      broadcast_directly(number, node.mapped().communicator, node.mapped().reason);
    });
    connections_.send(hub_.rank(), broadcast_message({own_, number, communicator}, reason, true));
  }
  hooks_.broadcast(communicator, reason);
}

void StateQueries::broadcast_directly(uint64_t number, uint64_t communicator, const std::string& reason) {
  for (const uint32_t rank : others())
    connections_.send(rank, broadcast_message({own_, number, communicator}, reason, false));
}

void StateQueries::received_broadcast(uint32_t rank, const Message& message) {
  WireReader reader(message.body);
  const Question question = Question::read(reader);
  const std::string reason = reader.text();
  const bool pass_on = reader.number<uint8_t>() != 0;
  if (pass_on) {
    connections_.send(rank, {message::broadcast_confirmed, WireWriter().number(question.number).take()});
    for (const uint32_t other : others()) {
      if (other != question.asker) connections_.send(other, broadcast_message(question, reason, false));
    }
  }
  const std::pair<uint32_t, uint64_t> key{question.asker, question.number};
  if (std::ranges::find(seen_broadcasts_, key) != seen_broadcasts_.end()) return;
  seen_broadcasts_.push_back(key);
  if (seen_broadcasts_.size() > kBroadcastsRemembered) seen_broadcasts_.pop_front();
  hooks_.broadcast(question.communicator, reason);
}

}  // namespace banyan::run
