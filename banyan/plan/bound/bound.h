// The bound: the least time any schedule of a collective can take, as an exact fraction, with what proves it.
//
// One cut. For a set S of nodes that leaves at least one participant outside, everything rooted in S must leave S once:
// with w(S) the weight of the participants in S, W the total and B+(S) the bandwidth leaving S, no allgather of M bytes
// ends before M * w(S) / (W * B+(S)). The bound is the largest such ratio, and it is reached (Edmonds; Bang-Jensen,
// Frank, Jackson; ForestColl, arXiv 2402.06787, section 4; with weights as well). Broadcast is the case of one weight;
// reduce-scatter and reduce are the same on the reversed fabric.
//
// Switches. A plain switch gives out what it takes in. If its links differ in the two directions, perhaps no trees
// reach the narrowest cut; then the proof is cuts with multiplicities and potentials of the switches, as below, of one
// direction alone and for pieces of given roots: the mean piece counts (balanced_links.h).
//
// Allreduce. Every piece is summed along a tree to some rank, its root, and spread from there along another. Both
// directions share the links and all roots are free, so that the best is a linear program (overlap.h), and its dual the
// proof: cuts with multiplicities m. The out-tree of a piece rooted at r leaves every set S with r inside that leaves a
// participant outside; its in-tree enters every such set. Let a spreading cut charge every link that leaves S, and a
// gathering cut every link that enters S, m each. Potentials p of the switches may be added: a link from u to v also
// costs p(v) - p(u), which comes to nothing along any route, as p is 0 at its ends: at ranks, for spreading at switches
// that multicast, for gathering at switches that reduce. Let y be what a link costs
// at most, for spreading or for gathering or 0. A piece rooted at r costs at least the sum of m over the cuts with r
// inside, so with the links' bandwidths B
//
//     seconds per byte  >=  min over r of (sum of m over the cuts with r inside)  /  sum over links of B * y.
//
// If links are alike (graph/arc_classes.h), the costs may be averaged over the images of the cuts; if every link has
// its opposite, also over spreading and gathering turned round: all of these prove as much.
//
// All-to-all. Lengths of links (flow/link_lengths.h): every byte crosses at least the distance of its ends.
//
// The bound holds for schedules of trees rooted at ranks, which all of ours are. A tree that branches at a switch that
// multicasts (reduces) leaves (enters) the same sets as any other, so these switches change the bound of an allreduce
// by their potentials alone, and that of the other kinds not at all.
//
// Ranks that do not take part neither send, receive nor forward: they are taken out of the graph.
//
// A cut is found by Newton (Dinkelbach) iteration on the ratio with integer max-flow; no floating point. Two or three
// rounds of one flow per participant, where verified participants join the source so that later flows stay local. The
// dual of an allreduce is found in floating point, rounded, and what it then proves is counted exactly.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"
#include "banyan/plan/flow/link_lengths.h"
#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/collective.h"

namespace banyan::plan {

// A proof by one cut. For spreading, `inside` must send crossing_weight / total_weight of the buffer out over
// `bandwidth`; for gathering (reduce phases), it must receive as much over it.
struct CutWitness {
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

// The proof for an allreduce; and for other kinds where a switch is in the way, then of one direction and not over
// images.
struct CutsWitness {
  struct Cut {
    bool gathering = false;      // what enters `inside` is charged; else what leaves it
    std::vector<NodeId> inside;  // ascending; participants and switches
    int64_t times = 0;           // m, above 0
  };
  struct Potential {
    bool gathering = false;
    NodeId at{};  // a switch
    int64_t height = 0;
  };
  std::vector<Cut> cuts;
  std::vector<Potential> potentials;
  bool over_images = false;  // averaged over all that is alike
  Fraction bound;            // seconds per byte

  Fraction seconds_per_byte() const { return bound; }
};

using Witness = std::variant<CutWitness, CutsWitness, LinkLengths>;  // the last for all-to-all

struct Bound {
  Fraction seconds_per_byte;  // of the total M
  Witness witness;
};

// Throws Error{invalid_input} when the participants cannot reach each other without passing through other ranks, and
// Error{unsupported} when bandwidths are so diverse that exact capacities need more than 62 bits.
//
// The bound of an all-to-all takes as long as its plan does (flow/all_to_all.h), which says when it is exact.
//
// The bound of an allreduce, and of any kind if a switch is in the way (balanced_links.h), is exact unless its
// multiplicities are no small fractions, or the fabric is so large that the work spent does not find all cuts; it then
// is a little too low, and still a bound.
//
// `observer`, if any, receives works_on() alone.
Bound compute_bound(const Fabric& fabric, const Collective& collective, PlanObserver* observer = nullptr);

// The time that the witness proves; `collective` is the one that it is about.
Fraction seconds_per_byte(const Witness& witness, const Collective& collective);

// Re-counts a witness in time linear in the links and in the witness: true if its numbers are those of its cuts.
bool holds(const Witness& witness, const Fabric& fabric, const Collective& collective);

// "ranks gpu0-gpu7 must send 8 of 64 shards out over 200 GB/s"; from the other side of the cut where that is shorter:
// "gpu3 must receive 63 of 64 shards over 325 GB/s".
std::string describe(const Witness& witness, const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan

namespace banyan {
using plan::Bound;
using plan::CutsWitness;
using plan::CutWitness;
using plan::LinkLengths;
using plan::Witness;
}  // namespace banyan
