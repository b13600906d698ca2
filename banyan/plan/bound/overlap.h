// The linear program of an allreduce that sums and spreads at the same time.
//
// On link e, a_e of the bandwidth is for trees that sum and b_e for trees that spread; every rank r roots pieces at a
// rate of W_r, the same for in-trees and out-trees:
//
//     maximise   x = sum of W_r
//     so that    a_e + b_e <= bandwidth of e
//                b(leaving S)  >= W(S)   and   a(entering S) >= W(S)   for every set S without some participant
//                at every switch, a and b each: what enters is what leaves.
//
// Trees that need no more exist for any such rates (graph/cut_condition.h), and what trees need is of this kind: x is
// exactly the throughput of the best schedule. If each link has its opposite, a may be taken as b turned round; if
// links are alike, their shares as their mean (graph/arc_classes.h): that saves columns.
//
// Switches that multicast or reduce. Out-trees may branch at a switch that multicasts, so b need not be balanced there;
// nor need a at a switch that reduces. That is the program of the bound: whatever trees do, they need as much of the
// links. It may be out of reach. Trees that branch at some of these switches surely exist where all trees span them, as
// if they were participants that root nothing (Edmonds' theorem): the sets S then are all those without some
// participant or such a switch, and the other switches are balanced. That is the program of the shares. Spanned are all
// switches that have room for every tree, if that reaches more than spanning none. Their program is solved first: its
// cuts help the other, which often need only exclude more.
//
// There are too many sets to write down. The program begins with the sets around one participant and is solved again
// with those that its answer violates, which are found by flows, until there are none. Each program on the way has
// fewer constraints than it should, so that its dual already is a proof of some bound. Answers are floating point; they
// are rounded to fractions with a common denominator, and then the sums and flows are exact. If that denominator is too
// large, the bound comes out a little too low, and shares are rounded down to at most one part in 16,000 less than the
// best. A comparison of both shows it.
//
// An answer of the program leaves out what it can of the links, trees on what remains would be high, and where many
// answers are as good each violates other sets. So once its value stays the same a second program looks for shares as
// near as can be to half of each link with that throughput (overlap_program.h). If it finds them, that is the end; else
// it has found sets that lower the throughput, with which the first goes on.
//
// The work is counted, not timed, and the search given up beyond some: the last dual stands, and there are no shares.
// 64 ranks take hundredths of a second; that happens from some thousand ranks on that are not alike.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// The switches that all trees span besides the participants: out-trees, and in-trees.
struct SwitchTerminals {
  std::vector<NodeId> spread, gather;  // ascending
  bool empty() const { return spread.empty() && gather.empty(); }
  friend bool operator==(const SwitchTerminals&, const SwitchTerminals&) = default;
};

// Integers: of an arc a with bandwidth B (in network units), gather[a] + spread[a] <= parts * B. Both satisfy the cut
// condition with `supply`, gathering on the reversed network, and are balanced at switches that are no terminals.
// `is_mirrored`: every arc has its opposite and each is the other turned round.
struct OverlapShares {
  Fraction parts;
  std::vector<int64_t> gather, spread;  // by arc
  std::vector<int64_t> supply;          // by participant
  SwitchTerminals terminals = {};
  bool is_mirrored = false;

  Fraction seconds_per_byte(const Network& network) const;
};

struct Overlap {
  CutsWitness witness;
  // Nothing where the search was given up, or no rounding was right.
  std::optional<OverlapShares> shares;
  uint32_t rounds = 0;  // programs solved; how hard it was
};

// Throws as compute_bound. `observer` receives works_on() alone.
Overlap solve_overlap(const Fabric& fabric, const Collective& collective, PlanObserver* observer = nullptr);

}  // namespace banyan::plan
