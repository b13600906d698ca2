// The part of a trace that is read: all of it, or one step. Linear time.
#pragma once

#include <cstdint>

#include "banyan/job/kineto/trace.h"

namespace banyan::job::kineto {

// Keeps what began, or for a GPU was launched, within the annotation ProfilerStep#step.
// Throws Error{not_found} that lists the steps there are.
void keep_step(Trace& trace, uint64_t step);

// Throws Error{invalid_input} for a trace without anything that a program does, or whose times lie further apart than
// those of one run; sums of its times fit into 64 bits afterwards.
void check_window(const Trace& trace);

}  // namespace banyan::job::kineto
