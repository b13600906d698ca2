// Checks before a job is run that its ranks agree with one another, without simulating time.
//
// The job is carried out in order, with everything taking no time, until nothing can go on. Everything left over is a
// finding: a collective that the members of its group call differently (kind, bytes, root, or not at all), a message
// that is never received or never sent, one whose sender and receiver disagree on its length, and otherwise a deadlock:
// a cycle of ranks each of which waits for the next.
//
// Complexity O(nodes of all ranks + dependencies); memory a few bytes per node of a rank. Ranks that run one program
// with slots that mean the same (see job.h) still count one by one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/job/job.h"

namespace banyan::job {

struct Finding {
  enum class Kind : uint8_t {
    collective_mismatch,
    missing_member,
    unmatched_send,
    unmatched_receive,
    length_mismatch,
    deadlock
  };
  Kind kind;
  uint32_t rank = 0;  // the first that is concerned
  std::string text;   // one line: ranks, group, node names, what each called
};

// The longest message that a job may send before the receiver asks for it; the simulator (job_simulation.h) has the
// same limit.
constexpr Bytes kEager{64 << 10};

struct CheckOptions {
  size_t most_findings = 20;
  Bytes eager = kEager;  // sends up to this end without their receive; larger ones wait until it has begun
};

// Empty when all is well. In order of rank, then of node.
std::vector<Finding> check_job(const Job& job, const CheckOptions& options = {});

}  // namespace banyan::job
