#include "banyan/run/agent/hub.h"

#include <algorithm>
#include <utility>

#include "banyan/base/rank_list.h"
#include "banyan/base/words.h"
#include "banyan/run/agent/messages.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

using std::chrono::milliseconds;

// For the hub to say whether who has ended had left before.
constexpr milliseconds kHubAnswerTime{200};
// For the other half of an ending: a connection that broke, or the kernel's report that the process is no more.
constexpr milliseconds kOtherSignTime{20};
// After that, who was not called calls.
constexpr milliseconds kRollCall{1000};

Message flag_message(message::Kind kind, bool on) {
  return {kind, WireWriter().number(static_cast<uint8_t>(on ? 1 : 0)).take()};
}

Message confirmed_message(uint32_t leaver) { return {message::gone_confirmed, WireWriter().number(leaver).take()}; }

Message silence_message(uint32_t rank, bool is_silent, const std::string& why) {
  return {message::silence, WireWriter().number(rank).number(static_cast<uint8_t>(is_silent ? 1 : 0)).text(why).take()};
}

}  // namespace

Hub::Hub(Timers& timers, AgentConnections& connections, Liveness& liveness, Options options,
         std::vector<std::string> names, Events events)
    : timers_(timers),
      connections_(connections),
      liveness_(liveness),
      options_(options),
      names_(std::move(names)),
      events_(std::move(events)),
      ending_reasons_(liveness.size()),
      pinged_(liveness.size()) {}

// The hub calls first, as lower ranks call higher ones for their data: where something drops such calls, that shows
// now. Who is not called soon calls itself.
void Hub::start() {
  hub_ = 0;
  if (is_own()) {
    for (uint32_t rank = 1; rank < liveness_.size(); ++rank) connections_.call(rank);
    take_over();
    return;
  }
  // Handshakes take the hub less than a millisecond each.
  roll_call_.set_after(timers_, kRollCall + milliseconds(liveness_.size()), [this] { connections_.call(hub_); });
  adjust_heartbeat();
}

void Hub::connected(uint32_t rank) {
  if (is_own() || rank == hub_) send_news_to(rank);
}

// It had said that it goes, or it sends nonsense.
void Hub::lost(uint32_t rank, const std::string& why) {
  if (rank == hub_ && liveness_.is_gone(rank)) take_over();
  if (liveness_.is_gone(rank)) return;
  conclude(rank, {.why = names_[rank] + " is gone: " + why, .is_certain = false, .side = own_side()}, {});
}

void Hub::suspicion_concluded(uint32_t rank, const std::string& why, Suspicion::Reason reason) {
  if (liveness_.is_gone(rank)) return;
  if (reason == Suspicion::Reason::refused) {
    return conclude(
        rank,
        {.why = names_[rank] + " is gone: " + why + ", and its host says that its port is closed", .side = own_side()},
        {});
  }
  if (reason == Suspicion::Reason::silent) {
    const std::string text = names_[rank] + " is gone: " + why + ", and nobody has heard of it for " +
                             format_timeout(options_.lost_after) + " since";
    return conclude(rank, {.why = text, .is_certain = false, .side = own_side()}, {});
  }
  if (!ending_reasons_[rank].empty()) return;  // that is being concluded
  ending_reasons_[rank] = names_[rank] + " is gone: " + why;
  if (events_.process_is_watched(rank)) {
    conclude_later(rank, kOtherSignTime);
  } else {
    conclude(rank, {.why = ending_reasons_[rank]}, {});
  }
}

// ---- Fences ----

// Those who seem to live, as far as this rank knows.
std::vector<uint32_t> Hub::own_side() const {
  std::vector<uint32_t> side;
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    if (rank == options_.own || (!liveness_.is_gone(rank) && events_.seems_to_live(rank))) side.push_back(rank);
  }
  return side;
}

// Adds those who will hear of the conclusion from this hub, since they hold to it, too.
void Hub::add_own_side(std::vector<uint32_t>& side, uint32_t gone) const {
  const std::vector<uint32_t> own = own_side();
  std::set<uint32_t> all(side.begin(), side.end());
  all.insert(own.begin(), own.end());
  all.erase(gone);
  side.assign(all.begin(), all.end());
}

std::string Hub::notice_of(const Conclusion& conclusion) const {
  return WireWriter().ranks(conclusion.side).text(format_timeout(options_.lost_after)).take();
}

// Whether `side` gives way to `other`, which gives way to it otherwise.
bool Hub::gives_way(const std::vector<uint32_t>& side, const std::vector<uint32_t>& other) {
  return side.size() != other.size() ? side.size() < other.size() : side > other;
}

// Those of own_side() who are not on `side`, which is the side of `rank`. None when they are fewer: then `side` stays.
std::vector<uint32_t> Hub::larger_own_side(uint32_t rank, const std::vector<uint32_t>& side) const {
  std::vector<uint32_t> own = own_side();
  std::erase_if(own, [&](uint32_t each) {
    return each != options_.own && (each == rank || std::ranges::find(side, each) != side.end());
  });
  return gives_way(own, side) ? std::vector<uint32_t>() : own;
}

// `rank` has concluded that this one is dead. The larger side stays.
void Hub::noticed(uint32_t rank, const std::string& notice) {
  if (liveness_.is_fenced() || is_leaving()) return;
  WireReader reader(notice);
  const std::vector<uint32_t> side = reader.ranks();
  const std::string time = reader.text();
  reader.end();
  if (side.empty()) throw Error(ErrorCode::invalid_input, "a fence that nobody has put up");
  const auto fence = gone_.find(rank);
  if (fence != gone_.end() && !fence->second.side.empty()) {
    // Each has a fence against the other. Both compare the sides that were told, so that one of them gives way,
    // whatever each has learned since.
    const std::vector<uint32_t>& known = fence->second.side;
    if (known == side ? rank < options_.own : gives_way(known, side)) be_fenced(rank, side, time);
    return;
  }
  std::vector<uint32_t> own = larger_own_side(rank, side);
  if (own.empty()) return be_fenced(rank, side, time);
  put_up_fence(rank, "this rank", std::move(own));
}

void Hub::put_up_fence(uint32_t rank, const std::string& taken_for_dead, std::vector<uint32_t> side) {
  if (liveness_.is_gone(rank)) return;
  conclude(rank,
           {.why = names_[rank] + " was cut off, has taken " + taken_for_dead + " for dead, and is on the smaller side",
            .is_certain = false,
            .side = std::move(side)},
           {});
}

void Hub::be_fenced(uint32_t by, const std::vector<uint32_t>& side, const std::string& time) {
  liveness_.set_fence("this rank was taken for dead by " + list_ranks(side) + " (not heard of for " + time +
                      ") and is fenced out");
  const Conclusion end{.why = names_[options_.own] + " was fenced out by " + list_ranks(side)};
  // Those on that side, too: they may not know, or have put up a fence against `by` meanwhile.
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    if (rank == options_.own || rank == by || liveness_.is_gone(rank)) continue;
    connections_.send(rank, gone_message(options_.own, end));
  }
  connections_.close(by, "");
  events_.changed(options_.own);
}

Message Hub::gone_message(uint32_t rank, const Conclusion& conclusion) {
  return {message::gone, WireWriter()
                             .number(rank)
                             .text(std::string(to_string(conclusion.health)))
                             .text(conclusion.why)
                             .number(static_cast<uint8_t>(conclusion.is_certain ? 1 : 0))
                             .ranks(conclusion.side)
                             .take()};
}

void Hub::send_gone(uint32_t to, uint32_t rank) {
  const auto found = gone_.find(rank);
  if (found != gone_.end()) connections_.send(to, gone_message(rank, found->second));
}

// ---- Endings ----

void Hub::process_ended(uint32_t rank) {
  if (liveness_.is_gone(rank)) return;
  const bool was_lost = !ending_reasons_[rank].empty();
  ending_reasons_[rank] = names_[rank] + " has ended";
  if (was_lost) {
    conclude(rank, {.why = ending_reasons_[rank]}, {});
  } else if (is_own() || rank == hub_ || !answers()) {
    // That it left, if so, is in what was read by now, or comes from a hub that has just left too.
    conclude_later(rank, kOtherSignTime);
  } else {
    connections_.send(hub_, {message::ended, WireWriter().number(rank).text(ending_reasons_[rank]).take()});
    conclude_later(rank, kHubAnswerTime);
  }
}

void Hub::conclude_later(uint32_t rank, milliseconds delay) {
  conclusions_[rank].set_after(timers_, delay, [this, rank] { conclude(rank, {.why = ending_reasons_[rank]}, {}); });
}

void Hub::conclude(uint32_t rank, Conclusion conclusion, std::optional<uint32_t> source) {
  // Nobody tells news to who has left, so it cannot tell an ending from another, and keeps its opinion to itself.
  const bool is_guess = is_leaving() && !source;
  if (is_guess) conclusion.health = Health::left;
  const bool is_dead = conclusion.health == Health::dead;
  if (rank == options_.own || !liveness_.set(rank, conclusion.health, conclusion.why, conclusion.is_certain)) return;
  gone_[rank] = conclusion;
  if (is_dead || is_guess) {
    connections_.close(rank, is_guess || conclusion.side.empty() ? "" : notice_of(conclusion));
    if (is_own() && !conclusion.side.empty() && !is_guess) connections_.remind(rank);
  } else {
    connections_.expect_end(rank);  // a rank that has left closes it itself, as soon as it has noted everything
  }
  pinged_[rank].reset();
  expecting_.erase(rank);
  // Who leaves is passed on apart, and waits for it.
  if (!is_guess && (is_dead || source != rank)) spread_news(gone_message(rank, conclusion), source);
  // A hub that leaves serves until it ends, so that a whole world can leave at once by way of it.
  if (rank == hub_ && !connections_.is_connected(hub_)) take_over();
  adjust_heartbeat();
  std::vector<uint32_t> leavers;
  for (const auto& [leaver, awaited] : leaves_) {
    if (leaver != options_.own || is_own()) leavers.push_back(leaver);  // else only the hub can let this one go
  }
  for (const uint32_t leaver : leavers) leave_confirmed(leaver, rank);
  events_.changed(rank);
}

// The hub tells all, the others tell the hub.
void Hub::spread_news(const Message& message, std::optional<uint32_t> source) {
  if (!is_own()) {
    if (source != hub_) connections_.send(hub_, message);
    return;
  }
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    // Others hear it when they are connected.
    if (rank != source && connections_.is_connected(rank) && !liveness_.is_gone(rank)) connections_.send(rank, message);
  }
}

void Hub::take_over() {
  // This rank is never gone to itself, so there is a hub.
  while (liveness_.is_gone(hub_)) ++hub_;
  if (!is_own()) {
    if (connections_.is_connected(hub_)) {
      send_news_to(hub_);
    } else {
      connections_.call(hub_);
    }
  } else {
    for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
      if (rank != options_.own && connections_.is_connected(rank)) send_news_to(rank);
      connections_.remind(rank);
    }
    roll_call_.set_after(timers_, kRollCall, [this] {
      for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
        if (rank != options_.own && !liveness_.is_gone(rank)) connections_.call(rank);
      }
    });
  }
  adjust_heartbeat();
  if (is_leaving()) announce_leave();
}

void Hub::send_news_to(uint32_t rank) {
  for (uint32_t other = 0; other < liveness_.size(); ++other) {
    send_gone(rank, other);
    if (is_own() && liveness_.state(other) == Health::silent) {
      connections_.send(rank, silence_message(other, true, liveness_.why(other)));
    }
  }
  if (!is_own() && expecting_.contains(options_.own)) connections_.send(rank, flag_message(message::expecting, true));
}

void Hub::take_sign_of_life(uint32_t rank) {
  pinged_[rank].reset();
  if (liveness_.state(rank) != Health::silent || !(is_own() || rank == hub_)) return;
  liveness_.set(rank, Health::alive, "");
  if (is_own()) spread_news(silence_message(rank, false, ""), {});
  events_.changed(rank);
}

uint32_t Hub::checked(uint32_t rank) const {
  if (rank >= liveness_.size()) throw Error(ErrorCode::invalid_input, "there is no rank " + std::to_string(rank));
  return rank;
}

bool Hub::received(uint32_t rank, const Message& message) {
  switch (message.kind) {
    case message::gone:
      received_gone(rank, message);
      return true;
    case message::gone_confirmed:
      leave_confirmed(WireReader(message.body).number<uint32_t>(), rank);
      return true;
    case message::ended:
      received_ended(rank, message);
      return true;
    case message::silence:
      received_silence(message);
      return true;
    case message::expecting:
      if (WireReader(message.body).number<uint8_t>() != 0) {
        expecting_.insert(rank);
      } else {
        expecting_.erase(rank);
      }
      adjust_heartbeat();
      return true;
    case message::ping:
      connections_.send(rank, {message::pong, ""});
      return true;
    case message::pong:
      return true;
    default:
      return false;
  }
}

void Hub::received_gone(uint32_t rank, const Message& message) {
  WireReader reader(message.body);
  const uint32_t gone = checked(reader.number<uint32_t>());
  const Health health = parse_health(reader.text());
  if (!is_gone(health))
    throw Error(ErrorCode::invalid_input, "a rank that is gone is " + std::string(to_string(health)));
  Conclusion conclusion{.health = health, .why = reader.text()};
  conclusion.is_certain = reader.number<uint8_t>() != 0;
  conclusion.side = reader.ranks();
  for (const uint32_t each : conclusion.side) static_cast<void>(checked(each));
  const bool is_fence = health == Health::dead && !conclusion.is_certain && !conclusion.side.empty();
  if (is_fence && is_own() && !is_leaving() && gone != options_.own && !liveness_.is_gone(gone)) {
    // The hub may know better.
    if (events_.seems_to_live(gone)) {
      std::vector<uint32_t> own = larger_own_side(rank, conclusion.side);
      if (!own.empty()) return put_up_fence(rank, names_[gone], std::move(own));
    }
    add_own_side(conclusion.side, gone);
  }
  conclude(gone, conclusion, rank);
  if (gone == rank) {
    relay_leave(gone);
  } else if (health == Health::left) {
    connections_.send(rank, confirmed_message(gone));
  }
}

void Hub::received_ended(uint32_t rank, const Message& message) {
  WireReader reader(message.body);
  const uint32_t ended = checked(reader.number<uint32_t>());
  const std::string why = reader.text();
  if (liveness_.is_gone(ended)) {
    send_gone(rank, ended);
  } else {
    conclude(ended, {.why = why}, {});
  }
}

void Hub::received_silence(const Message& message) {
  WireReader reader(message.body);
  const uint32_t rank = checked(reader.number<uint32_t>());
  const bool is_silent = reader.number<uint8_t>() != 0;
  const std::string why = reader.text();
  if (rank == options_.own) return;
  if (liveness_.set(rank, is_silent ? Health::silent : Health::alive, why)) events_.changed(rank);
}

void Hub::expect(bool on) {
  if (on == expecting_.contains(options_.own)) return;
  if (on) {
    expecting_.insert(options_.own);
  } else {
    expecting_.erase(options_.own);
  }
  if (!is_own()) connections_.send(hub_, flag_message(message::expecting, on));
  adjust_heartbeat();
}

void Hub::adjust_heartbeat() {
  const bool is_needed = is_own() ? !expecting_.empty() : expecting_.contains(options_.own);
  if (is_needed == heartbeat_.is_set()) return;
  if (!is_needed) return heartbeat_.cancel();
  const TimePoint now = timers_.now();
  heartbeat_.set(timers_, now, [this, now] { send_heartbeat(now); });
}

void Hub::send_heartbeat(TimePoint due) {
  const TimePoint now = timers_.now();
  // Perhaps this process was stopped itself, and the answers wait to be read.
  const bool was_asleep = now - due > options_.heartbeat;
  const TimePoint next = now + options_.heartbeat;
  heartbeat_.set(timers_, next, [this, next] { send_heartbeat(next); });
  if (!is_own()) {
    check_heartbeat(hub_, now, was_asleep);
    return;
  }
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    if (rank != options_.own && !liveness_.is_gone(rank)) check_heartbeat(rank, now, was_asleep);
  }
}

void Hub::check_heartbeat(uint32_t rank, TimePoint now, bool was_asleep) {
  if (!pinged_[rank]) {
    pinged_[rank] = now;
    connections_.send_over_all(rank, {message::ping, ""});
    return;
  }
  if (was_asleep || now - *pinged_[rank] < options_.silent_after) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::duration<double>>(options_.silent_after).count();
  std::string shown = std::to_string(seconds);
  shown.erase(shown.find('.') + 2);
  const std::string why = names_[rank] + " has not answered for " + shown + " s; it is stopped or cut off";
  if (!liveness_.set(rank, Health::silent, why)) return;
  if (is_own()) spread_news(silence_message(rank, true, why), {});
  events_.changed(rank);
}

void Hub::leave(std::function<void()> done) {
  left_ = std::move(done);
  announce_leave();
}

void Hub::announce_leave() {
  if (is_own()) {
    relay_leave(options_.own);
    return;
  }
  leaves_[options_.own] = {hub_};
  connections_.send(hub_, left_message(options_.own));
}

void Hub::relay_leave(uint32_t leaver) {
  std::set<uint32_t>& awaited = leaves_[leaver];
  awaited.clear();
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    if (rank == options_.own || rank == leaver || liveness_.is_gone(rank)) continue;
    connections_.send(rank, left_message(leaver));
    if (liveness_.state(rank) == Health::alive) awaited.insert(rank);
  }
  leave_confirmed(leaver, leaver);
}

void Hub::leave_confirmed(uint32_t leaver, uint32_t by) {
  const auto found = leaves_.find(leaver);
  if (found == leaves_.end()) return;
  found->second.erase(by);
  if (!found->second.empty()) return;
  leaves_.erase(found);
  if (leaver == options_.own) {
    may_leave_ = true;
  } else {
    connections_.send(leaver, confirmed_message(leaver));
  }
  if (may_leave_ && leaves_.empty()) left_();
}

Message Hub::left_message(uint32_t leaver) const {
  return gone_message(leaver, {.health = Health::left, .why = names_[leaver] + " has left in peace"});
}

}  // namespace banyan::run
