// Peers: what a communicator learns of the processes of its other ranks, and tells them. Behind it is the agent of the
// process (AgentPeers), or a simulated world.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/agent/hooks.h"
#include "banyan/run/communicator/joined_processes.h"
#include "banyan/run/record/health.h"

namespace banyan::run {

// Ranks are those of the communicator. Any thread.
class Peers {
 public:
  Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  virtual ~Peers() = default;

  virtual uint32_t size() const = 0;
  // One load each: health() of a rank, and a number that grows after any has changed.
  virtual Health health(uint32_t rank) const = 0;
  virtual uint32_t changes() const = 0;
  // Describes why a rank is not alive: "process 4711 on node7 has ended".
  virtual std::string why(uint32_t rank) const = 0;
  // The rank that died first: others may have ended because of that.
  virtual std::optional<uint32_t> first_dead() const = 0;
  // The name of a rank in errors: "rank 1", or "rank 1 of the group (global rank 5)".
  virtual std::string name_of(uint32_t rank) const = 0;
  // For sentences that name ranks of the group: " (ranks of the group of global ranks 4, 5)". Empty where they are
  // those of all processes.
  virtual std::string legend() const = 0;

  // Asks all what they have called last (RankNews). Blocks until all who live have answered, or for so long.
  virtual std::vector<PeerReport> ask(std::chrono::milliseconds at_most) = 0;
  // Until the returned object goes, ranks that give no sign of life are found silent. Not null.
  virtual std::shared_ptr<void> watch_for_silence() = 0;
};

class AgentPeers final : public Peers {
 public:
  // `members`: ranks of the job.
  AgentPeers(std::shared_ptr<JoinedProcesses> job, uint64_t communicator, std::vector<uint32_t> members)
      : job_(std::move(job)), communicator_(communicator), members_(std::move(members)) {}

  uint32_t size() const override { return static_cast<uint32_t>(members_.size()); }
  Health health(uint32_t rank) const override { return liveness().state(members_[rank]); }
  uint32_t changes() const override { return liveness().changes().load(std::memory_order_acquire); }
  std::string why(uint32_t rank) const override { return liveness().why(members_[rank]); }
  std::optional<uint32_t> first_dead() const override;
  std::string name_of(uint32_t rank) const override { return job_->name_of(members_, rank); }
  std::string legend() const override;
  std::vector<PeerReport> ask(std::chrono::milliseconds at_most) override;
  std::shared_ptr<void> watch_for_silence() override;

 private:
  const Liveness& liveness() const { return job_->agent().liveness(); }

  const std::shared_ptr<JoinedProcesses> job_;  // shared with the communicator
  const uint64_t communicator_;
  const std::vector<uint32_t> members_;
};

}  // namespace banyan::run
