// Communications that the host called and that no kernel carries out. If a rank has no communication with a kernel at
// all, they are Gloo's, and each is a work of the draft on a track of the host. Else their kernels were lost, and they
// are kept for the case that other ranks prove it.
//
// Gloo's operators run on threads of its own (its pool); the c10d:: operator that began before says which thread
// called.
//
// Complexity O(operators log operators).
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/job/kineto/comm_operators.h"
#include "banyan/job/kineto/gpu.h"
#include "banyan/job/kineto/reading.h"

namespace banyan::job::kineto {

// That a thread asked for a communication.
struct HostComm {
  uint32_t track = 0;  // of the trace: the thread
  int64_t time = 0;
  uint32_t name = 0;                          // into RankDraft::names
  uint32_t work = kNoIndex, lost = kNoIndex;  // into RankDraft::works or lost: whose launch it is
};

struct HostComms {
  std::vector<HostComm> calls;  // as they began
  std::vector<uint32_t> pool;   // events of Gloo's threads: no thread of the program is busy with them
};

// Adds lost calls, or a track, works and calls, to the draft; their launches are for add_threads to fill in.
HostComms add_host_comms(const RankReading& reading, CommOperators& operators, const GpuWorks& gpu, RankDraft& draft);

}  // namespace banyan::job::kineto
