// JobNetwork: the network that the plans of one communicator are made for.
//
// A fabric that is given to the runtime has processes or hosts as its ranks. Processes: the plans are for that fabric.
// Hosts (RankLayout::node_of_host, as in a daemon that serves many jobs of one cluster): a host with one rank of the
// communicator is that rank's node. A host with several becomes a switch of the same name, with a rank node
// "<host>.<i>" for each of its ranks behind it:
//
//      leaf <-> h0                     leaf <-> h0 (switch) <-> h0.0
//                                                           <-> h0.1
//
// The links inside a host are kMemorySpeedup times as quick as all that leave it together: memory is quicker than
// network cards, and only ratios matter. A host that several nodes are joined to gets a second switch "<host>.out", in
// which the links that leave it begin: else plans would send what is between other hosts through this one, where no
// program passes it on.
//
//      leaf0 -> h0 (switch) -> h0.0 -> h0.out (switch) -> leaf0
//      leaf1 ->                h0.1                    -> leaf1        and h0.out -> h0, for what stays there
//
// The links of the given fabric keep their numbers, whatever the communicator; what is added comes after them. So do
// the nodes. Hosts that take no part stay rank nodes. The planners leave out rank nodes that are no participants, with
// their links (plan/network.h): nothing goes through them, they do not relay. On a leaf-spine this makes no difference;
// where hosts are joined to hosts (tori), those of a communicator must be joined among themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/run/execute/plan_source.h"

namespace banyan::compose {

inline constexpr uint32_t kMemorySpeedup = 4;

struct JobNetwork {
  Fabric given;                // that people, cables and routes speak of
  Fabric planned;              // that plans are for; its first links are those of the given one
  std::vector<NodeId> ranks;   // of the communicator, in order: its nodes in the network that plans are for
  std::vector<NodeId> places;  // by rank: the node of the given fabric that it is, or that its host is
};

// Without a fabric, the ranks of a host hang on one switch, and the hosts on another. `where` is in front of errors.
// Error{mismatch}: the fabric has processes as ranks, and neither those of the communicator nor those of the job.
// Error{not_found}: a host is no rank of the fabric. Error{invalid_input}: two hosts are the same.
// O(nodes + links + ranks), and what Fabric::Builder takes; nothing is copied where no node changes.
JobNetwork job_network(const std::optional<Fabric>& fabric, const run::RankLayout& layout, const std::string& where);

}  // namespace banyan::compose
