// Links the operators of the host trace to those of the Kineto trace.
//
// Three ways, the surer ones first; every link must agree in the operator's name:
//   1. by record function id: rf_id of the node = "Record function id" of the event (PyTorch >= 2.4 or so);
//   2. by place: "Ev Idx" counts the profiler's operators as they began, as rf_id counts the observer's. If both ran
//      alike, their difference is one number, which is found by vote;
//   3. by name order: both files list operators as they began, so they are two sequences of names of which one may have
//      what the other has not (a profiler switched on later, events that were dropped). They are aligned with the
//      fewest left-overs (Myers, "An O(ND) difference algorithm", 1986), and links that contradict how operators lie
//      within each other in time are taken back.
//
// Complexity O(n log n) for 1 and 2; O((n + m) d) for 3, where d is the number of left-overs. Beyond some thousands of
// them, the k-th of a name is the k-th of that name on the other side, if there are equally many.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/job/kineto/pytorch_host.h"
#include "banyan/job/kineto/trace.h"

namespace banyan::job::kineto {

struct HostLinks {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::vector<uint32_t> node_of;  // by event of the Kineto trace: into HostTrace::nodes
  // Links by each of the ways; ids that lead to an operator of another name, which are not used; links by name that lie
  // wrongly within each other, which are taken back; operators without partner.
  LinkCounts counts;
};

// `parents` by event: the operator around it, kNone for outermost ones and for events that are no operators.
HostLinks link_host(const Trace& kineto, const std::vector<uint32_t>& parents, const HostTrace& host);

// Indexed by event: the innermost operator (cpu_op) of the same thread that covers its start. Events of GPUs have none.
std::vector<uint32_t> nest_operators(const Trace& trace);

}  // namespace banyan::job::kineto
