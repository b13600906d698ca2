// The bound: the least time any schedule of a collective can take, as an exact fraction, with the cut that proves it.
//
// Notation (ForestColl, arXiv 2402.06787, section 4; facts hold for weighted shards as well). For a set S of nodes that
// leaves at least one participant outside, everything rooted in S must leave S once: with w(S) the weight of the
// participants in S, W the total and B+(S) the bandwidth leaving S, no allgather of M bytes ends before
// M * w(S) / (W * B+(S)). The bound is the largest such ratio, and it is reached (Edmonds; Bang-Jensen, Frank,
// Jackson). Broadcast is the case of one weight; reduce-scatter and reduce are the same on the reversed fabric. For
// allreduce this is a reference, no bound: the least time of "reduce-scatter, then allgather", the sum of both. A
// schedule that overlaps the two phases may be faster on uneven fabrics; reports therefore say "reference".
//
// Ranks that do not take part neither send, receive nor forward: they are taken out of the graph.
//
// Found by Newton (Dinkelbach) iteration on the cut ratio with integer max-flow; no floating point. Two or three rounds
// of one flow per participant, where verified participants join the source so that later flows stay local.
#pragma once

#include <string>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"
#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/collective.h"

namespace banyan::plan {

// A proof by one cut. For spreading, `inside` must send crossing_weight / total_weight of the buffer out over
// `bandwidth`; for gathering (reduce phases), it must receive as much over it.
struct Witness {
  bool gathering = false;
  std::vector<NodeId> inside;  // ascending; participants and switches
  uint64_t crossing_weight = 0;
  uint64_t total_weight = 0;
  uint64_t bytes_per_second = 0;  // summed over the links that cross

  Fraction seconds_per_byte() const {
    return Fraction(static_cast<int128>(crossing_weight),
                    static_cast<int128>(total_weight) * static_cast<int128>(bytes_per_second));
  }
};

struct Bound {
  Fraction seconds_per_byte;       // of the total M; for allreduce the reference
  std::vector<Witness> witnesses;  // one; for allreduce two, the reduce-scatter's first
};

// Throws Error{invalid_input} when the participants cannot reach each other without passing through other ranks, and
// Error{unsupported} when bandwidths are so diverse that exact capacities need more than 62 bits.
//
// `observer`, if any, hears works_on() alone.
Bound compute_bound(const Fabric& fabric, const Collective& collective, PlanObserver* observer = nullptr);

// Re-counts a witness in time linear in the links: whether its numbers are those of its cut.
bool holds(const Witness& witness, const Fabric& fabric, const Collective& collective);

// "ranks gpu0-gpu7 must send 8 of 64 shards out over 200 GB/s"; from the other side of the cut where that is shorter:
// "gpu3 must receive 63 of 64 shards over 325 GB/s".
std::string describe(const Witness& witness, const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan

namespace banyan {
using plan::Bound;
using plan::Witness;
}  // namespace banyan
