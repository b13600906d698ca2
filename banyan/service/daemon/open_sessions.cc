#include "banyan/service/daemon/open_sessions.h"

#include <algorithm>
#include <vector>

#include "banyan/run/join/wire.h"
#include "banyan/run/record/log.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/service/daemon/host_directory.h"

namespace banyan::service {
namespace {

// What a greeting says first; the rest is for the session's own connections.
OpenSessions::Key read_key(run::WireReader& payload) {
  std::string communicator = payload.text();
  return {std::move(communicator), payload.number<uint32_t>()};
}

}  // namespace

void SessionLanes::lose(uint32_t rank) {
  if (liveness_.set(rank, run::Health::dead, "its process has ended")) connections_.changed(rank);
}

OpenSessions::Key OpenSessions::key_of(const OpenSession& open) {
  const std::string capability = in_hexadecimal({open.capability.begin(), open.capability.end()});
  return {capability + "." + std::to_string(open.communicator), open.rank};
}

std::string OpenSessions::public_id(const std::string& communicator) {
  constexpr size_t kBytes = 6;
  return in_hexadecimal(run::sha256(communicator).substr(0, kBytes));
}

void OpenSessions::add(const Key& key, Doors doors) {
  if (!sessions_.try_emplace(key, std::move(doors)).second) {
    throw Error(ErrorCode::invalid_usage,
                "rank " + std::to_string(key.second) + " of this communicator has a session on this host already");
  }
  std::erase(ended_, key);
}

void OpenSessions::hand_over(const Key& key) {
  const Doors& doors = sessions_.at(key);
  const auto waited =
      std::stable_partition(early_.begin(), early_.end(), [&](const Early& early) { return early.key != key; });
  for (auto early = waited; early != early_.end(); ++early) {
    if (auto* const lane = std::get_if<EarlyLane>(&early->what)) {
      give(doors, *lane);
    } else {
      doors.hear(std::get<EarlyText>(early->what));
    }
  }
  early_.erase(waited, early_.end());
}

// Whatever is wrong with it, this session has not done it.
void OpenSessions::give(const Doors& doors, EarlyLane& lane) {
  try {
    run::WireReader payload(lane.payload);
    read_key(payload);
    doors.lanes->connections().admit(payload, lane.connection);
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "a daemon that called early is not understood: " << error.what();
  }
}

void OpenSessions::remove(const Key& key) {
  if (sessions_.erase(key) == 0) return;
  ended_.push_back(key);
  if (ended_.size() > kEndedRemembered) ended_.pop_front();
}

void OpenSessions::lose(const Key& key, uint32_t rank) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end() || rank >= found->second.lanes->liveness().size()) return;
  found->second.lanes->lose(rank);
}

bool OpenSessions::has_ended(const Key& key) const {
  return std::find(ended_.begin(), ended_.end(), key) != ended_.end();
}

void OpenSessions::keep(Early early) {
  if (early_.size() >= kMostEarly) early_.pop_front();
  early_.push_back(std::move(early));
}

std::optional<std::string> OpenSessions::admit(const run::Greeting& greeting, run::Admitted& connection) {
  run::WireReader payload(greeting.payload);
  Key key = read_key(payload);
  if (const auto found = sessions_.find(key); found != sessions_.end()) {
    return found->second.lanes->connections().admit(payload, connection);
  }
  if (has_ended(key)) return "a daemon called for a session that has ended";
  keep({.key = std::move(key), .what = EarlyLane{.payload = greeting.payload, .connection = std::move(connection)}});
  return std::nullopt;
}

void OpenSessions::hear(const SessionText& said) {
  for (const uint32_t rank : said.ranks) {
    const Key key{said.communicator, rank};
    if (const auto found = sessions_.find(key); found != sessions_.end()) {
      found->second.hear(said.text);
    } else if (!has_ended(key)) {
      keep({.key = key, .what = said.text});
    }
  }
}

void OpenSessions::set_rate(const SessionRate& said) {
  for (const uint32_t rank : said.ranks) {
    const auto found = sessions_.find({said.communicator, rank});
    if (found != sessions_.end()) found->second.set_rate(said.rate);
  }
}

}  // namespace banyan::service
