#include "banyan/run/agent/membership.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/agent/messages.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {

Membership::Entry& Membership::entry(uint64_t epoch) {
  const auto found = entries_.find(epoch);
  if (found != entries_.end()) return found->second;
  if (order_.size() >= kEpochsKept) {
    // Not one that somebody waits for.
    const auto oldest = std::ranges::find_if(order_, [this](uint64_t other) { return !entries_.at(other).done; });
    if (oldest != order_.end()) {
      entries_.erase(*oldest);
      order_.erase(oldest);
    }
  }
  order_.push_back(epoch);
  Entry& made = entries_.try_emplace(epoch, own_).first->second;
  CHECK(entries_.size() == order_.size()) << entries_.size() << " and " << order_.size() << " epochs";
  const auto now = timers_.now();
  for (uint32_t rank = 0; rank < liveness_.size(); ++rank) {
    if (liveness_.is_gone(rank)) made.agreement.gone(rank, now, liveness_.is_certain(rank));
  }
  return made;
}

void Membership::agree(SurvivorQuestion question, Done done) {
  const uint64_t epoch = question.epoch;
  if (liveness_.is_fenced()) {
    done({.survivors = {}, .failure = Error(ErrorCode::peer_lost, liveness_.fence())});
    return;
  }
  Entry& own = entry(epoch);
  if (own.agreement.has_called()) {
    done({.survivors = {},
          .failure = Error(ErrorCode::invalid_input, "epoch " + std::to_string(epoch) + " was agreed on before")});
    return;
  }
  own.done = std::move(done);
  own.agreement.call(std::move(question), timers_.now());
  follow_up(epoch, own);
}

void Membership::changed(uint32_t rank) {
  const bool is_fence = rank == own_ && liveness_.is_fenced();
  if (!liveness_.is_gone(rank) && !is_fence) return;
  for (auto& [epoch, entry] : entries_) {
    if (is_fence) {
      entry.agreement.give_up(Error(ErrorCode::peer_lost, liveness_.fence()));
    } else {
      entry.agreement.gone(rank, timers_.now(), liveness_.is_certain(rank));
    }
    follow_up(epoch, entry);
  }
}

bool Membership::received(uint32_t rank, const Message& message) {
  if (message.kind != message::agreement) return false;
  WireReader reader(message.body);
  const uint64_t epoch = reader.number<uint64_t>();
  const Agreement::PaxosMessage paxos =
      Agreement::PaxosMessage::parse(std::string_view(message.body).substr(sizeof epoch));
  Entry& own = entry(epoch);
  own.agreement.received(rank, paxos, timers_.now());
  follow_up(epoch, own);
  return true;
}

void Membership::follow_up(uint64_t epoch, Entry& entry) {
  for (auto& [rank, paxos] : entry.agreement.take_messages()) {
    if (rank < liveness_.size()) {
      connections_.send(rank, {message::agreement, WireWriter().number(epoch).take() + paxos.encode()});
    }
  }
  entry.timer.cancel();
  if (const auto next = entry.agreement.next_tick()) {
    entry.timer.set(timers_, *next, [this, epoch] {
      Entry& due = entries_.at(epoch);
      due.agreement.tick(timers_.now());
      follow_up(epoch, due);
    });
  }
  if (!entry.done || (!entry.agreement.survivors() && !entry.agreement.failure())) return;
  std::exchange(entry.done, {})({.survivors = entry.agreement.survivors(), .failure = entry.agreement.failure()});
}

}  // namespace banyan::run
