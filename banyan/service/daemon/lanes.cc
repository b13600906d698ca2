#include "banyan/service/daemon/lanes.h"

#include "banyan/run/join/wire.h"

namespace banyan::service {

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
  if (sessions_.try_emplace(key, std::move(lanes)).second) return;
  throw Error(ErrorCode::invalid_usage,
              "rank " + std::to_string(key.second) + " of this communicator has a session on this host already");
}

void Lanes::lose(const Key& key, uint32_t rank) {
  const auto found = sessions_.find(key);
  if (found != sessions_.end() && rank < found->second->liveness().size()) found->second->lose(rank);
}

std::optional<std::string> Lanes::admit(const run::Greeting& greeting, run::Admitted& connection) {
  if (greeting.purpose != "lane") return "a daemon called for '" + greeting.purpose.substr(0, 32) + "'";
  run::WireReader payload(greeting.payload);
  std::string communicator = payload.text();
  const auto rank = payload.number<uint32_t>();
  const auto found = sessions_.find({std::move(communicator), rank});
  if (found == sessions_.end()) return "a daemon called for a session that is not here, or not yet";
  return found->second->connections().admit(payload, connection);
}

}  // namespace banyan::service
