// JoinedProcesses: the processes that have joined together, and what this one knows of them. Communicators are made of
// its members and hold it by shared_ptr; it says good-bye to the others when the last of them is gone.
//
// Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/agent/agent.h"
#include "banyan/run/host/host_group.h"
#include "banyan/run/host/regions.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/join/store.h"
#include "banyan/run/seal/seal.h"

namespace banyan::run {

// A process of the job, as it has told of itself.
struct Process {
  Member member;
  int directory_fd = -1;  // of its RegionPool
  Cores cores;            // that it may use
  // Further facts that it has told, by the names of Invitation::extras.
  std::map<std::string, std::string> extras = {};
  std::string memory_scope = {};  // equal for processes of one host that may open each other's memory
};

// Protection that is asked for (BANYAN_ENCRYPTION). `automatic`: none is asked for, and traffic between hosts is
// authenticated if a secret is set. The same on all ranks.
enum class Encryption : uint8_t { automatic, off, authenticated, encrypted };

// The protection that all TCP traffic has got.
struct Seals {
  std::optional<Sealing> sealing = {};
  bool is_asked_for = false;  // or else what cannot seal may go without
};

class JoinedProcesses {
 public:
  // `pool` belongs to this process and outlives the job.
  JoinedProcesses(RegionPool& pool, std::vector<Process> processes, std::unique_ptr<Agent> agent, Seals seals = {})
      : pool_(pool),
        processes_(std::move(processes)),
        seals_(seals),
        agent_(std::move(agent)),
        is_oversubscribed_(are_cores_short()),
        directories_(processes_.size()) {}
  struct Invitation {
    std::string url;  // see join/rendezvous.h
    uint32_t rank = 0, size = 1;
    std::string name;                               // tells meetings at one place apart; may be empty
    Encryption encryption = Encryption::automatic;  // the same on all
    // Peers may call other addresses of this host than those of BANYAN_ADDRESS: this process listens on all.
    bool has_routes = false;
    // Further facts that the others are told of this process, by names that nobody else uses: "service".
    std::map<std::string, std::string> extras = {};
  };
  // Collective over `invitation.size` processes: finds the others and watches over them from then on. Throws
  // Error{timed_out} naming who has not come, also when the deadline is stopped before all have met, Error{aborted}
  // when another rank's is, Error{mismatch}, Error{invalid_input}, Error{io}.
  static std::shared_ptr<JoinedProcesses> join(RegionPool& pool, const Invitation& invitation, const Secret& secret,
                                               const Deadline& deadline);
  // The same in a store that the processes share already, under keys that begin with the invitation's name. Listens on
  // the address that BANYAN_ADDRESS names, on all, or on the loopback without a secret.
  static std::shared_ptr<JoinedProcesses> join(RegionPool& pool, Store& store, const Invitation& invitation,
                                               const Secret& secret, const Deadline& deadline);

  ~JoinedProcesses();
  JoinedProcesses(const JoinedProcesses&) = delete;
  JoinedProcesses& operator=(const JoinedProcesses&) = delete;

  uint32_t rank() const { return agent_->rank(); }
  uint32_t size() const { return static_cast<uint32_t>(processes_.size()); }
  const Process& process(uint32_t rank) const { return processes_[rank]; }
  bool is_here(uint32_t rank) const {
    return processes_[rank].member.host_id == processes_[this->rank()].member.host_id;
  }
  // True if these ranks may open each other's memory, as far as they are on one host.
  bool share_memory(const std::vector<uint32_t>& ranks) const;
  // True if the processes of this host have to share its cores.
  bool is_oversubscribed() const { return is_oversubscribed_; }
  // The sealing of TCP traffic between them, if it is sealed.
  const Seals& seals() const { return seals_; }
  Agent& agent() const { return *agent_; }
  RegionPool& pool() const { return pool_; }

  // The name in errors of rank `rank` of a group, whose members are `members`: "rank 1", and if these are not all
  // processes in their order, "rank 1 of the group (global rank 5)".
  std::string name_of(const std::vector<uint32_t>& members, uint32_t rank) const;

  // Brings the processes `ranks` (of the job, all on this host, this one among them) together in shared memory;
  // called by all of them, with the same list and the same `key`, which is used once. Throws Error{timed_out} naming
  // who has not come, Error{peer_lost} when one dies before all have come, at all others; Error{io}.
  std::unique_ptr<HostGroup> meet_on_host(uint64_t key, const std::vector<uint32_t>& ranks,
                                          const Deadline& deadline) const;

 private:
  bool are_cores_short() const;
  std::shared_ptr<const SharedMemory> directory_of(uint32_t rank) const;

  RegionPool& pool_;
  const std::vector<Process> processes_;
  const Seals seals_;
  const std::unique_ptr<Agent> agent_;
  const bool is_oversubscribed_;
  mutable std::mutex mutex_;  // protects directories_
  // Directories of the region pools, indexed by rank: mapped once for all groups.
  mutable std::vector<std::shared_ptr<const SharedMemory>> directories_;
};

}  // namespace banyan::run
