// Runs a job of traces, so that what was read can be held against what was traced: everything at once, a collective
// lasts as long as the sample says once all members have come, a message once both sides have. Passes over all nodes
// until none can go on: slow, and obviously right.
#pragma once

#include <cstdint>

#include "banyan/job/job.h"
#include "banyan/job/kineto/test_sample.h"

namespace banyan::testing {

// The end of the last node in ns. CHECKs that every node ends.
int64_t replay(const Job& job, const Sample& sample);

}  // namespace banyan::testing
