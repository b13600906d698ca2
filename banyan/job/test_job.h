// Jobs in words, for tests: equal texts are equal jobs.
#pragma once

#include <cstdint>
#include <string>

#include "banyan/job/job.h"

namespace banyan::job {

// Everything that a job says, rank by rank, a line for each group, stream, node and dependency. `with_names` leaves the
// names of nodes out when false: "rank 0 node 1 send 8 B to 1 tag 3 on 'cpu 0 nic 0' needs 0".
std::string describe(const Job& job, bool with_names = true);

// Computes, sends and receives as GOAL has them: labelled or not, on a few CPUs and cards, some receives from anybody.
// Same seed, same job.
Job random_message_job(uint64_t seed);

}  // namespace banyan::job
