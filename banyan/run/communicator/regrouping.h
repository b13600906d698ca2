// Regrouping: the ranks of a communicator that live agree on a value, or on the group that goes on without the others.
//
// Both are agreements of the agents (agent/survivors.h), so they work on a communicator in error, and while ranks die.
//
// Invariants:
//   1. An epoch is used once: those of values and of groups are counted apart, and mixed with the number of the
//      communicator. Ranks count alike, since all of them make these calls: one that comes late is left out of what the
//      others have agreed on meanwhile.
//   2. The ranks that are acknowledged are ranks of the communicator, and this one is never among them.
//   3. A group has this rank in it: an agreement that leaves it out throws.
//
// Any thread; one at a time for each kind.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "banyan/run/agent/survivors.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/communicator/peers.h"

namespace banyan::run {

class Regrouping {
 public:
  // All outlive it. `members`: ranks of the job.
  Regrouping(const JoinedProcesses& job, uint64_t communicator, const std::vector<uint32_t>& members,
             const Peers& peers)
      : job_(job), communicator_(communicator), members_(members), peers_(peers) {}

  // As Communicator::agree().
  Communicator::Agreed agree(int32_t flag, std::chrono::milliseconds at_most);

  // The question of who goes on, but for the epoch. `excluded`: ranks of the communicator. Throws Error{invalid_input}
  // for a rank that it does not have.
  SurvivorQuestion question_without(std::span<const uint32_t> excluded) const;
  struct Group {
    uint64_t id = 0;  // equal on all members
    std::vector<uint32_t> members{};
  };
  // Those who go on, in the order of this communicator. Throws what Agent::agree() throws.
  Group next_group(SurvivorQuestion question);
  // True if a member has died before all of this host had come together: then none of the others has (meet_on_host),
  // and all of them agree anew. Elsewhere nobody waits for the others before its first call.
  bool has_lost_one_of_host(const Group& group) const;

 private:
  const JoinedProcesses& job_;
  const uint64_t communicator_;
  const std::vector<uint32_t>& members_;
  const Peers& peers_;
  std::atomic<uint64_t> groups_{0}, agreements_{0};
  std::mutex mutex_;                 // protects acknowledged_
  std::set<uint32_t> acknowledged_;  // took no part in the last agreement
};

}  // namespace banyan::run
