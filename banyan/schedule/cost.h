// The cost of a schedule, by counting: the load of each link, the heights of the trees, and the estimates made of both.
//
// Time at large sizes is decided by the most loaded link: seconds_per_byte() is max over links of load / bandwidth, all
// trees and both phases at once, which is what a pipelined execution converges to. The figures trust that the schedule
// is well formed, not that it is right.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/schedule/schedule.h"

namespace banyan::schedule {

// Units (of schedule.total_units()) that cross each link, by link number. O(edges * route length).
std::vector<uint64_t> link_loads(const Schedule& schedule);

// Exact seconds that one byte of the total M costs; algbw is its reciprocal.
Fraction seconds_per_byte(const Schedule& schedule);

struct Heights {
  uint32_t max = 0;  // hops from the furthest leaf, from rank to rank: out-tree, in-tree, or the sum of both for an
                     // allreduce chunk
  double mean = 0;   // over chunks, weighted by their units
};
Heights heights(const Schedule& schedule);

// The numbers of messages when a buffer is moved in one piece.
struct MessageCounts {
  uint64_t most_of_a_rank = 0;  // that one rank sends: an edge each, those that are tied by a step together one
  uint32_t rounds = 0;          // one after the other: the largest step where edges are tied, else the height
};
MessageCounts message_counts(const Schedule& schedule);

struct AlphaBeta {
  Picoseconds per_message = std::chrono::microseconds(5);  // fixed cost of one hop besides the links' own latency
};

// The α-β estimate of the seconds that `total` bytes take: max height * (α + largest route latency) + total *
// seconds_per_byte. It assumes slices small enough to fill the pipeline and free enough not to cost; `predict`
// simulates, this only ranks plans.
double estimate_seconds(const Schedule& schedule, Bytes total, AlphaBeta model = {});

}  // namespace banyan::schedule
