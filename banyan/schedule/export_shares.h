// A schedule with shares rounded so that its number of chunks is a power of two.
//
// The runtimes cut a buffer into equal chunks, and take an algorithm only for counts of elements that the number of
// chunks divides. An optimal forest may want any number (320, 2792); buffers have powers of two. Rounding shares costs
// throughput, since some links get a little more than their part; seconds_per_byte (cost.h) of the result says how
// much.
#pragma once

#include "banyan/schedule/schedule.h"

namespace banyan::schedule {

// The same trees, with `parts` equal parts dealt to the chunks of each root (allgather, reduce-scatter) or to all
// chunks (other kinds), by largest remainders; a chunk that gets none is left out. Throws Error{unsupported} for shards
// of unequal size.
Schedule round_shares(const Schedule& schedule, uint64_t parts);

// The number of equal parts of each shard, or of the whole buffer, such that every share is a whole number of parts.
uint64_t parts_of(const Schedule& schedule);

}  // namespace banyan::schedule
