// Whether a GPU runtime moves a plan's bytes the ways that the plan says.
//
// No format of a runtime can name a way from GPU to GPU: the runtime takes the widest that there is, NVLink where two
// GPUs have both NVLink and PCI. Bytes that a plan sends another way, narrower than the widest through switches alone,
// cross the widest one on the machine, beside what the plan sends there.
#pragma once

#include "banyan/schedule/schedule.h"

namespace banyan::schedule {

// Throws Error{unsupported}, naming such a route, the throughput that is left and the mend, where the runtime's ways
// cost more than kRoundingLoss (export.h) of the plan's throughput. O(ranks * links * log links).
void expect_runtime_routes(const Schedule& schedule);

}  // namespace banyan::schedule
