// All that ran on a rank's GPUs, as works of its draft: kernels, copies, fills and, for a kernel of NCCL, the
// communications that it carries out.
//
// A kernel and its calls are mostly one to one. Several kernels of one call (all-to-all) are one work; a kernel of
// several calls (coalesced) is a work with all of them. The kernel's args, the operators around its launch and the host
// trace say which call it is, the surer first; if all of them are silent, it is the host trace's next call of its kind
// that has no kernel.
//
// Complexity O(events log events).
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/job/kineto/comm_operators.h"
#include "banyan/job/kineto/reading.h"

namespace banyan::job::kineto {

struct GpuWorks {
  std::vector<uint32_t> work_of;  // by event: kNoIndex for what is none, or a further kernel of a call
  bool communicates = false;      // some are communications
};

// Adds tracks, works, calls and counts to the draft. Works are in the order of their launches.
GpuWorks add_gpu_works(const RankReading& reading, CommOperators& operators, RankDraft& draft);

// A stream does one thing at a time: what overlaps in the trace is cut at the next one's start, and works that start at
// once get an order.
void mend_overlaps(RankDraft& draft);

}  // namespace banyan::job::kineto
