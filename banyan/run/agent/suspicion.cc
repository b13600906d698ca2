#include "banyan/run/agent/suspicion.h"

#include <algorithm>
#include <utility>

#include "banyan/run/agent/messages.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

// Others are asked in the first round, and each time after so many; so many of them.
constexpr uint32_t kAskEvery = 5, kAskedAtOnce = 16;
// Between two refusals, where all calls are refused: they are made twice as often. After more, something else has come
// of a call, or nothing yet.
constexpr std::chrono::milliseconds kBetweenRefusals{1000};

}  // namespace

Suspicion::Suspicion(Timers& timers, AgentConnections& connections, const Liveness& liveness, Options options,
                     Events events)
    : timers_(timers),
      connections_(connections),
      liveness_(liveness),
      options_(std::move(options)),
      events_(std::move(events)),
      last_(liveness.size()) {}

std::chrono::milliseconds Suspicion::round() const {
  return std::max(std::chrono::milliseconds(1), options_.lost_after / kSilentRounds);
}

void Suspicion::unreachable(uint32_t rank, std::string why, bool is_orderly) {
  if (liveness_.is_gone(rank) || liveness_.is_fenced()) return;
  const auto [place, is_new] = suspects_.try_emplace(rank);
  Suspect& suspect = place->second;
  suspect.why = std::move(why);
  suspect.is_orderly = suspect.is_orderly || is_orderly;
  if (!is_new) return;
  // The count of rounds begins, and others are asked at once (3).
  suspect.timer.set_after(timers_, round(), [this, rank] { end_round(rank); });
  ask_first(rank);
}

void Suspicion::refused(uint32_t rank) {
  const auto found = suspects_.find(rank);
  if (found == suspects_.end()) return;
  Suspect& suspect = found->second;
  const TimeSource::TimePoint now = timers_.now();
  // The host must have refused all that time: after a gap the count begins anew (5).
  if (!suspect.refused_in || now - suspect.refused_at > kBetweenRefusals) suspect.refused_in = suspect.rounds;
  suspect.refused_at = now;
  // (2): closed in order, and nobody listens any more.
  if (suspect.is_orderly) return conclude(rank, Reason::ended);
  if (suspect.rounds - *suspect.refused_in >= kRefusedRounds && events_.matters(rank) && !events_.is_watched(rank)) {
    conclude(rank, Reason::refused);
  }
}

void Suspicion::sign_of_life(uint32_t rank) {
  last_[rank] = timers_.now();
  const auto suspect = suspects_.find(rank);
  if (suspect != suspects_.end()) {
    // A sign of life ends all counts, and a process that speaks has not ended in order (4).
    suspect->second.showed_life = true;
    suspect->second.refused_in.reset();
    suspect->second.is_orderly = false;
  }
  // Those who have asked for it are answered.
  const auto asked = asked_.extract(rank);
  if (asked.empty()) return;
  for (const uint32_t asker : asked.mapped().askers) answer(asker, rank);
}

bool Suspicion::has_sign_of(uint32_t rank) const {
  return events_.is_watched(rank) || (last_[rank] && timers_.now() - *last_[rank] <= options_.lost_after);
}

void Suspicion::changed(uint32_t rank) {
  if (liveness_.is_fenced()) {
    suspects_.clear();
    asked_.clear();
  }
  if (!liveness_.is_gone(rank)) return;
  asked_.erase(rank);
  for (auto& [suspect, question] : asked_) question.askers.erase(rank);
  suspects_.erase(rank);
}

void Suspicion::end_round(uint32_t rank) {
  Suspect& suspect = suspects_.at(rank);
  // A suspicion ends when the rank is heard over a connection.
  const bool showed_life = std::exchange(suspect.showed_life, false) || events_.is_watched(rank);
  if (showed_life && connections_.is_connected(rank)) {
    suspects_.erase(rank);
    return;
  }
  suspect.timer.set_after(timers_, round(), [this, rank] { end_round(rank); });
  // Rounds that were missed count for nothing (6): each is counted when it ends.
  ++suspect.rounds;
  if (showed_life) suspect.silent_rounds = 0;
  if (showed_life || !(events_.matters(rank) || asked_.contains(rank))) return;
  ++suspect.silent_rounds;
  if (suspect.silent_rounds >= kSilentRounds && events_.matters(rank)) return conclude(rank, Reason::silent);
  if (suspect.silent_rounds % kAskEvery == 0) ask_more(rank);
}

void Suspicion::conclude(uint32_t rank, Reason reason) {
  const std::string why = suspects_.at(rank).why;
  events_.concluded(rank, why, reason);
}

// ---- Asking others ----

void Suspicion::ask(uint32_t rank, uint32_t other) {
  if (other == rank || other == options_.own || liveness_.is_gone(other)) return;
  connections_.send(other, {message::ask_sign, WireWriter().number(rank).take()});
}

// Those whose kernel knows, and the one that all others ask.
void Suspicion::ask_first(uint32_t rank) {
  if (!events_.matters(rank)) return;
  bool has_asked_lowest = false;
  for (uint32_t other = 0; other < liveness_.size(); ++other) {
    if (other == rank || other == options_.own || liveness_.is_gone(other)) continue;
    const bool is_lowest = !std::exchange(has_asked_lowest, true);
    if (is_lowest || options_.hosts[other] == options_.hosts[rank]) ask(rank, other);
  }
}

void Suspicion::ask_more(uint32_t rank) {
  Suspect& suspect = suspects_.at(rank);
  for (uint32_t i = 0; i < kAskedAtOnce && suspect.asked + 1 < liveness_.size(); ++i) {
    ask(rank, (options_.own + ++suspect.asked) % liveness_.size());
  }
  if (suspect.asked + 1 >= liveness_.size()) suspect.asked = 0;  // what they heard then is no news any more
}

void Suspicion::answer(uint32_t asker, uint32_t suspect) {
  connections_.send(asker, {message::sign_of_life, WireWriter().number(suspect).take()});
}

bool Suspicion::received(uint32_t rank, const Message& message) {
  if (message.kind != message::ask_sign && message.kind != message::sign_of_life) return false;
  const uint32_t suspect = WireReader(message.body).number<uint32_t>();
  if (suspect >= liveness_.size()) throw Error(ErrorCode::invalid_input, "there is no rank " + std::to_string(suspect));
  if (suspect == options_.own) return true;
  if (liveness_.is_gone(suspect)) {
    if (message.kind == message::ask_sign) events_.send_gone(rank, suspect);
  } else if (message.kind == message::sign_of_life) {
    sign_of_life(suspect);
  } else if (events_.is_watched(suspect)) {
    answer(rank, suspect);
  } else {
    take_question(rank, suspect);
  }
  return true;
}

void Suspicion::take_question(uint32_t asker, uint32_t suspect) {
  const auto [place, is_new] = asked_.try_emplace(suspect);
  Question& question = place->second;
  question.askers.insert(asker);
  if (is_new) {
    question.since = timers_.now();
    // What it says to this is a sign of life. A call may be one itself.
    if (connections_.is_connected(suspect)) {
      connections_.send_over_all(suspect, {message::ping, ""});
    } else {
      connections_.call(suspect);
    }
  } else if (connections_.is_connected(suspect) && timers_.now() - question.since > options_.lost_after / 2) {
    sign_of_life(suspect);
  }
}

}  // namespace banyan::run
