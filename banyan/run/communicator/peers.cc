#include "banyan/run/communicator/peers.h"

#include <algorithm>
#include <utility>

#include "banyan/base/rank_list.h"

namespace banyan::run {

std::optional<uint32_t> AgentPeers::first_dead() const {
  const std::optional<uint32_t> dead = liveness().first_dead(members_);
  if (!dead) return std::nullopt;
  return static_cast<uint32_t>(std::ranges::find(members_, *dead) - members_.begin());
}

std::string AgentPeers::legend() const {
  if (name_of(0) == "rank 0") return "";
  return " (ranks of the group of global " + list_ranks(members_) + ")";
}

std::vector<PeerReport> AgentPeers::ask(std::chrono::milliseconds at_most) {
  std::vector<PeerReport> reports = job_->agent().ask_states(communicator_, Agent::Clock::now() + at_most);
  std::vector<PeerReport> by_rank;
  for (const uint32_t member : members_) by_rank.push_back(std::move(reports.at(member)));
  return by_rank;
}

std::shared_ptr<void> AgentPeers::watch_for_silence() { return job_->agent().expect(); }

}  // namespace banyan::run
