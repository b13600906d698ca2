// Writes a matched draft as a program of a Job: see kineto.h for what becomes what.
//
// The time of each node is what is left of it in the trace when what it needs is taken out, so that the program, run on
// what the traces ran on, takes as long. Complexity O((works + points) log).
#pragma once

#include "banyan/job/job.h"
#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {

// Adds the draft's program, and its rank, which is number `self`, to the builder. The program begins at the draft's
// origin. Throws Error{unsupported} for more threads and streams than a program can have,
// Error{invalid_input} for one that is busy with one thing for longer than a Job allows.
void emit_rank(RankDraft& draft, uint32_t self, const Options& options, Job::Builder& builder);

}  // namespace banyan::job::kineto
