#include "banyan/service/session/open_sessions.h"

#include <algorithm>

#include "banyan/run/join/wire.h"
#include "banyan/run/record/log.h"
#include "banyan/run/seal/primitives.h"

namespace banyan::service {
namespace {

struct Called {
  OpenSessions::Key key;
  std::string user;
};

// What a greeting says first; the rest is for the session's own connections.
Called read_called(run::WireReader& payload) {
  const std::string name = payload.text();
  const size_t end = std::min(name.find('@'), name.size());
  Called called{.key = {name.substr(0, end), payload.number<uint32_t>()}, .user = name.substr(end)};
  if (!called.user.empty()) called.user.erase(0, 1);
  return called;
}

}  // namespace

void SessionLanes::lose(uint32_t rank) {
  if (liveness_.set(rank, run::Health::dead, "its process has ended")) connections_.changed(rank);
}

std::string OpenSessions::id_of(const Capability& capability, uint64_t communicator) {
  return in_hexadecimal(capability) + "." + std::to_string(communicator);
}

OpenSessions::Key OpenSessions::key_of(const OpenSession& open) {
  return {id_of(open.capability, open.communicator), open.rank};
}

std::string OpenSessions::public_id(const std::string& communicator) {
  constexpr size_t kBytes = 6;
  return in_hexadecimal(run::sha256(communicator).substr(0, kBytes));
}

void OpenSessions::add(const Key& key, Doors doors) {
  // Who was refused itself may try again.
  const Error* const refusal = ended_.contains(key) ? nullptr : early_.refusal_of(key.first);
  if (refusal != nullptr) throw Error(*refusal);
  if (!sessions_.try_emplace(key, std::move(doors)).second) {
    throw Error(ErrorCode::invalid_usage,
                "rank " + std::to_string(key.second) + " of this communicator has a session on this host already");
  }
  ended_.erase(key);
  elsewhere_.erase(key);
}

void OpenSessions::hand_over(const Key& key) {
  const Doors& doors = sessions_.at(key);
  for (EarlyBox::Item& item : early_.take(key)) {
    if (auto* const lane = std::get_if<EarlyBox::Lane>(&item.what)) {
      give(doors, *lane);
    } else {
      doors.receive(std::get<EarlyBox::Text>(item.what));
    }
  }
}

// Whatever is wrong with it, this session has not done it.
void OpenSessions::give(const Doors& doors, EarlyBox::Lane& lane) {
  try {
    run::WireReader payload(lane.payload);
    read_called(payload);
    doors.lanes->connections().admit(payload, lane.connection);
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "a daemon that called early is not understood: " << error.what();
  }
}

void OpenSessions::remove(const Key& key) {
  if (sessions_.erase(key) > 0) record_ended(key);
}

bool OpenSessions::refuse(const Key& key) {
  if (sessions_.contains(key)) return false;
  const bool is_news = early_.refusal_of(key.first) == nullptr;
  early_.take(key);
  record_ended(key);
  return is_news;
}

void OpenSessions::record_ended(const Key& key) {
  if (!ended_.insert(key).second) return;
  in_their_order_.push_back(key);
  if (in_their_order_.size() <= kEndedRemembered) return;
  ended_.erase(in_their_order_.front());
  in_their_order_.pop_front();
}

void OpenSessions::lose(const Key& key, uint32_t rank) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end() || rank >= found->second.lanes->liveness().size()) return;
  found->second.lanes->lose(rank);
}

std::optional<std::string> OpenSessions::admit(const run::Greeting& greeting, run::Admitted& connection) {
  run::WireReader payload(greeting.payload);
  Called called = read_called(payload);
  // A session that is open takes the caller. One that may still be opened has it wait; for others it is turned away.
  if (const auto found = sessions_.find(called.key); found != sessions_.end()) {
    return found->second.lanes->connections().admit(payload, connection);
  }
  if (ended_.contains(called.key)) return "a daemon called for a session that has ended";
  if (!may_come(called.key)) return "a daemon called for a session that another daemon of this host has";
  keep({.key = std::move(called.key),
        .user = std::move(called.user),
        .what = EarlyBox::Lane{.payload = greeting.payload, .connection = std::move(connection)}});
  return std::nullopt;
}

void OpenSessions::receive(const SessionText& said) {
  std::vector<Key> early;  // the last ranks first; of more than these, the first would go again
  for (auto rank = said.ranks.rbegin(); rank != said.ranks.rend(); ++rank) {
    Key key{said.communicator, *rank};
    if (const auto found = sessions_.find(key); found != sessions_.end()) {
      found->second.receive(said.text);
    } else if (early.size() < EarlyBox::kMostOfUser && may_come(key)) {
      early.push_back(std::move(key));
    }
  }
  for (auto key = early.rbegin(); key != early.rend(); ++key) {
    keep({.key = std::move(*key), .user = std::to_string(said.user), .what = said.text});
  }
}

void OpenSessions::receive(const SessionRefusal& said) {
  // Sessions that fail may remove themselves or others, so their keys are collected first.
  std::vector<Key> open;
  for (auto each = sessions_.lower_bound({said.communicator, 0});
       each != sessions_.end() && each->first.first == said.communicator; ++each) {
    open.push_back(each->first);
  }
  for (const Key& key : open) {
    if (const auto found = sessions_.find(key); found != sessions_.end()) found->second.fail(said.error);
  }
  early_.keep_refusal(said.communicator, std::to_string(said.user), said.error, std::chrono::steady_clock::now());
}

void OpenSessions::set_rate(const SessionRate& said) {
  for (const uint32_t rank : said.ranks) {
    const auto found = sessions_.find({said.communicator, rank});
    if (found != sessions_.end()) found->second.set_rate(said.rate);
  }
}

}  // namespace banyan::service
