// Switches that take in less than they could give out, or give out less than they could take in: what their links are
// worth.
//
// A plain switch gives out what it takes in, piece by piece. If its links differ in the two directions, some of the
// bandwidth of a cut may be of no use, and the narrowest cut promises more than any trees can reach. The best trees are
// found by a linear program (fixed_roots.h); its dual is a tighter proof, of cuts with multiplicities and potentials of
// switches as for an allreduce (bound.h); and what its links carry, with the other bandwidth taken away, is a network
// on which the narrowest cut can be reached, as on any balanced one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct BalancedLinks {
  CutsWitness witness;  // its bound is above that of the narrowest cut, or the narrowest cut's can be reached
  // The fabric's network, turned round for gathering, with what its links carry for bandwidths, in units of its own:
  // one is unit_bytes bytes per second of the fabric. Links that carry nothing are not there.
  Network network;
  CutWitness cut;  // the narrowest in `network`, in its units
  Fraction unit_bytes;

  // The time that trees in `network` reach, on the fabric; it is the bound but for rounding.
  Fraction seconds_per_byte() const { return cut.seconds_per_byte() / unit_bytes; }
};

// For one direction of a collective, whose narrowest cut is `cut`. Nothing where that can be reached as things are:
// where all switches are balanced, or can be by taking bandwidth away that the cut condition can spare. Nothing either
// where some switch multicasts or, when gathering, reduces, for such trees need no balance; and where the search takes
// too much work. Throws Error{unsupported} as the linear program does.
std::optional<BalancedLinks> balance_links(const Fabric& fabric, const Collective& collective, const CutWitness& cut,
                                           PlanObserver* observer = nullptr);

// Capacities at most these that are balanced at switches and satisfy the cut condition with `supply`, with the greatest
// sum. Nothing where there are none, where the program's answer is not whole, or where it takes too much work.
std::optional<std::vector<int64_t>> balance_by_program(const Network& network, const std::vector<int64_t>& capacity,
                                                       const std::vector<int64_t>& supply);

}  // namespace banyan::plan
