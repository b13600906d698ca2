// The host's side of a rank: where each of its threads launched something, waited for a GPU or did nothing for long,
// and what its calls made streams wait for.
//
//   launch                    a point at the end of the call, or earlier where what it launched began earlier
//   cudaStreamSynchronize, DeviceSynchronize, EventSynchronize, blocking copies
//                             a point that waits, for as long as the call lasts
//   cudaEventRecord, cudaStreamWaitEvent
//                             RankDraft::records, RankDraft::waits
//   a pause                   a gap, from Options::handoff on
//
// Threads that neither launch nor wait are left out, unless nothing in the trace ran on a GPU.
//
// Complexity O(events log events).
#pragma once

#include "banyan/job/kineto/gpu.h"
#include "banyan/job/kineto/host_comms.h"
#include "banyan/job/kineto/reading.h"

namespace banyan::job::kineto {

// The draft's works, by the events that they are made of.
struct RankWorks {
  GpuWorks gpu;
  HostComms host;
};

// Adds threads, waits and records to the draft, and the launches of its works and lost calls.
void add_threads(const RankReading& reading, const RankWorks& works, const Options& options, RankDraft& draft);

}  // namespace banyan::job::kineto
