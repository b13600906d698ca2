// Checks that a GPU runtime moves a plan's bytes along the plan's routes.
//
// No format of a runtime can name a route from GPU to GPU: the runtime takes the widest that there is, NVLink if two
// GPUs have both NVLink and PCI. Bytes that a plan sends along a route narrower than the widest through switches alone
// cross the widest one on the machine, beside what the plan sends there.
#pragma once

#include "banyan/schedule/schedule.h"

namespace banyan::schedule {

// Throws Error{unsupported}, naming such a route, the throughput that is left and the mend, if the runtime's routes
// cost more than kRoundingLoss (export.h) of the plan's throughput. O(ranks * links * log links).
void expect_runtime_routes(const Schedule& schedule);

}  // namespace banyan::schedule
