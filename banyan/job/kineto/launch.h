// Finds the host's event that launched each event of a GPU: by correlation, else by External id, else by the arrow
// (ac2g) that ends at it, else the call with the next lower correlation.
//
// GPU times are mended on the way, where launches prove them wrong:
//   - an event without times (ts 0, dur 0: pytorch/kineto issue 109) begins with its launch, and is left out where
//     nobody knows when that was;
//   - where most begin before their launch, the GPU's clock is behind the host's and is set right.
//
// Complexity O(events log events).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "banyan/job/kineto/trace.h"

namespace banyan::job::kineto {

struct RankDraft;

struct Launches {
  std::vector<uint32_t> launcher;               // by event: of a GPU's, the host's event; kNoIndex: unknown
  std::unordered_map<int64_t, uint32_t> calls;  // of the runtime, by correlation
  std::vector<uint32_t> gpu_events;             // as they were launched, without those that are left out
  std::vector<int64_t> launched;                // when, like gpu_events
};

// Sets the times of GPU events in `trace`; counts and notes what it mended in the draft.
Launches find_launches(Trace& trace, RankDraft& draft);

}  // namespace banyan::job::kineto
