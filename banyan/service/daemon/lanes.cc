#include "banyan/service/daemon/lanes.h"

#include <algorithm>
#include <vector>

#include "banyan/run/join/wire.h"
#include "banyan/run/record/log.h"

namespace banyan::service {
namespace {

// What a greeting says first; the rest is for the session's own connections.
Lanes::Key read_key(run::WireReader& payload) {
  std::string communicator = payload.text();
  return {std::move(communicator), payload.number<uint32_t>()};
}

}  // namespace

void SessionLanes::lose(uint32_t rank) {
  if (liveness_.set(rank, run::Health::dead, "its process has ended")) connections_.changed(rank);
}

Lanes::Key Lanes::key_of(const OpenSession& open) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string name;
  for (const uint8_t byte : open.capability) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return {name + "." + std::to_string(open.communicator), open.rank};
}

void Lanes::add(const Key& key, std::shared_ptr<SessionLanes> lanes) {
  const auto [session, is_new] = sessions_.try_emplace(key, std::move(lanes));
  if (!is_new) {
    throw Error(ErrorCode::invalid_usage,
                "rank " + std::to_string(key.second) + " of this communicator has a session on this host already");
  }
  std::erase(ended_, key);
  const auto waited =
      std::stable_partition(early_.begin(), early_.end(), [&](const Early& early) { return early.key != key; });
  for (auto early = waited; early != early_.end(); ++early) {
    try {
      run::WireReader payload(early->payload);
      read_key(payload);
      session->second->connections().admit(payload, early->connection);
    } catch (const Error& error) {  // nothing that this session has done
      BANYAN_LOG(warning) << "a daemon that called early is not understood: " << error.what();
    }
  }
  early_.erase(waited, early_.end());
}

void Lanes::remove(const Key& key) {
  if (sessions_.erase(key) == 0) return;
  ended_.push_back(key);
  if (ended_.size() > kEndedRemembered) ended_.pop_front();
}

void Lanes::lose(const Key& key, uint32_t rank) {
  const auto found = sessions_.find(key);
  if (found != sessions_.end() && rank < found->second->liveness().size()) found->second->lose(rank);
}

std::optional<std::string> Lanes::admit(const run::Greeting& greeting, run::Admitted& connection) {
  if (greeting.purpose != "lane") return "a daemon called for '" + greeting.purpose.substr(0, 32) + "'";
  run::WireReader payload(greeting.payload);
  Key key = read_key(payload);
  if (const auto found = sessions_.find(key); found != sessions_.end()) {
    return found->second->connections().admit(payload, connection);
  }
  if (std::find(ended_.begin(), ended_.end(), key) != ended_.end())
    return "a daemon called for a session that has ended";
  if (early_.size() >= kMostEarly) early_.pop_front();
  early_.push_back({.key = std::move(key), .payload = greeting.payload, .connection = std::move(connection)});
  return std::nullopt;
}

}  // namespace banyan::service
