#include "banyan/run/agent/questions.h"

#include <algorithm>
#include <chrono>

#include "banyan/run/agent/messages.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

// For the hub to say that it passes a wish on.
constexpr std::chrono::milliseconds kHubTime{200};
constexpr size_t kDumpsRemembered = 256;

uint8_t flag(bool on) { return on ? 1 : 0; }

Message ask_message(uint32_t asker, uint64_t number, uint64_t communicator, bool pass_on) {
  return {message::ask, WireWriter().number(asker).number(number).number(communicator).number(flag(pass_on)).take()};
}

Message dump_message(uint32_t asker, uint64_t number, uint64_t communicator, const std::string& reason, bool pass_on) {
  return {message::dump,
          WireWriter().number(asker).number(number).number(communicator).text(reason).number(flag(pass_on)).take()};
}

// Of the rank's state hook; nothing where the communicator is not known.
PeerReport report_of(std::optional<std::string> state) {
  return {.health = state ? Health::alive : Health::unknown, .text = std::move(state).value_or("")};
}

}  // namespace

Questions::Questions(Timers& timers, Links& links, const Hub& hub, const Liveness& liveness, HookBoard& hooks,
                     uint32_t own)
    : timers_(timers), links_(links), hub_(hub), liveness_(liveness), hooks_(hooks), own_(own) {}

Questions::~Questions() {
  for (auto& [number, question] : questions_) {
    if (question.direct_timer) timers_.cancel(*question.direct_timer);
    if (question.end_timer) timers_.cancel(*question.end_timer);
  }
  for (auto& [number, dump] : dumps_) timers_.cancel(dump.timer);
}

std::vector<uint32_t> Questions::others() const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    if (rank != own_ && !liveness_.is_gone(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void Questions::ask(uint64_t communicator, TimeSource::TimePoint deadline, Done done) {
  const uint64_t number = ++next_number_;
  Question& question = questions_[number];
  question.communicator = communicator;
  question.done = std::move(done);
  question.reports.resize(liveness_.size());
  for (const uint32_t rank : others()) question.pending.insert(rank);
  const std::optional<std::string> own = hooks_.state(communicator);
  question.reports[own_] = report_of(own);
  question.end_timer = timers_.at(deadline, [this, number] { finish(number); });
  if (hub_.is_own() || !hub_.answers()) {
    ask_directly(number);
  } else {
    const auto now = timers_.now();
    question.direct_timer = timers_.at(now + (deadline - now) / 2, [this, number] { ask_directly(number); });
    links_.send(hub_.rank(), ask_message(own_, number, communicator, true));
  }
  finish_if_done(number);
}

void Questions::ask_directly(uint64_t number) {
  const Question& question = questions_.at(number);
  for (const uint32_t rank : question.pending)
    links_.send(rank, ask_message(own_, number, question.communicator, false));
}

void Questions::changed() {
  std::vector<uint64_t> numbers;
  for (const auto& [number, question] : questions_) numbers.push_back(number);
  for (const uint64_t number : numbers) finish_if_done(number);
}

// Those who are silent may still answer, but nobody waits for them alone.
void Questions::finish_if_done(uint64_t number) {
  const std::set<uint32_t>& pending = questions_.at(number).pending;
  if (std::all_of(pending.begin(), pending.end(),
                  [this](uint32_t rank) { return liveness_.state(rank) != Health::alive; })) {
    finish(number);
  }
}

void Questions::finish(uint64_t number) {
  auto node = questions_.extract(number);
  Question& question = node.mapped();
  timers_.cancel(*question.end_timer);
  if (question.direct_timer) timers_.cancel(*question.direct_timer);
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    PeerReport& report = question.reports[rank];
    if (report.health != Health::silent) continue;
    report.text = liveness_.why(rank);
    if (liveness_.is_gone(rank)) report.health = liveness_.state(rank);
  }
  question.done(std::move(question.reports));
}

Message Questions::answer_to(uint32_t asker, uint64_t number, uint64_t communicator) {
  const std::optional<std::string> state = hooks_.state(communicator);
  return {message::answer, WireWriter()
                               .number(asker)
                               .number(number)
                               .number(own_)
                               .number(flag(state.has_value()))
                               .text(state.value_or(""))
                               .take()};
}

bool Questions::received(uint32_t rank, const Message& message) {
  switch (message.kind) {
    case message::ask:
      received_ask(rank, message);
      return true;
    case message::answer:
      received_answer(message);
      return true;
    case message::dump:
      received_dump(rank, message);
      return true;
    case message::dump_noted: {
      const auto node = dumps_.extract(WireReader(message.body).number<uint64_t>());
      if (!node.empty()) timers_.cancel(node.mapped().timer);
      return true;
    }
    default:
      return false;
  }
}

void Questions::received_ask(uint32_t rank, const Message& message) {
  WireReader reader(message.body);
  const uint32_t asker = reader.number<uint32_t>();
  const uint64_t number = reader.number<uint64_t>();
  const uint64_t communicator = reader.number<uint64_t>();
  const bool pass_on = reader.number<uint8_t>() != 0;
  links_.send(rank, answer_to(asker, number, communicator));
  if (!pass_on) return;
  for (const uint32_t other : others()) {
    if (other != asker) links_.send(other, ask_message(asker, number, communicator, false));
  }
}

void Questions::received_answer(const Message& message) {
  WireReader reader(message.body);
  const uint32_t asker = reader.number<uint32_t>();
  const uint64_t number = reader.number<uint64_t>();
  const uint32_t rank = reader.number<uint32_t>();
  const bool is_known = reader.number<uint8_t>() != 0;
  std::string text = reader.text();
  if (asker != own_) {
    if (asker < liveness_.size()) links_.send(asker, message);
    return;
  }
  const auto found = questions_.find(number);
  if (found == questions_.end() || found->second.pending.erase(rank) == 0) return;
  found->second.reports[rank] = report_of(is_known ? std::optional(std::move(text)) : std::nullopt);
  finish_if_done(number);
}

void Questions::tell(uint64_t communicator, const std::string& reason) {
  const uint64_t number = ++next_number_;
  if (hub_.is_own() || !hub_.answers()) {
    dump_directly(number, communicator, reason);
  } else {
    Dump& dump = dumps_[number];
    dump = {.communicator = communicator, .reason = reason, .timer = {}};
    dump.timer = timers_.after(kHubTime, [this, number] {
      const auto node = dumps_.extract(number);
      dump_directly(number, node.mapped().communicator, node.mapped().reason);
    });
    links_.send(hub_.rank(), dump_message(own_, number, communicator, reason, true));
  }
  hooks_.told(communicator, reason);
}

void Questions::dump_directly(uint64_t number, uint64_t communicator, const std::string& reason) {
  for (const uint32_t rank : others()) links_.send(rank, dump_message(own_, number, communicator, reason, false));
}

void Questions::received_dump(uint32_t rank, const Message& message) {
  WireReader reader(message.body);
  const uint32_t asker = reader.number<uint32_t>();
  const uint64_t number = reader.number<uint64_t>();
  const uint64_t communicator = reader.number<uint64_t>();
  const std::string reason = reader.text();
  const bool pass_on = reader.number<uint8_t>() != 0;
  if (pass_on) {
    links_.send(rank, {message::dump_noted, WireWriter().number(number).take()});
    for (const uint32_t other : others()) {
      if (other != asker) links_.send(other, dump_message(asker, number, communicator, reason, false));
    }
  }
  const std::pair<uint32_t, uint64_t> key{asker, number};
  if (std::find(seen_dumps_.begin(), seen_dumps_.end(), key) != seen_dumps_.end()) return;
  seen_dumps_.push_back(key);
  if (seen_dumps_.size() > kDumpsRemembered) seen_dumps_.pop_front();
  hooks_.told(communicator, reason);
}

}  // namespace banyan::run
