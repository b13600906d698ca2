// The joint proof of cuts with multiplicities: the sums of bound.h, in exact numbers.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/graph/arc_classes.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct ProvenByCuts {
  Fraction crossings;         // that every piece makes at least, in its two trees
  Fraction bytes_per_second;  // of all links together, each as often as one crossing of it counts at most

  Fraction seconds_per_byte() const { return crossings / bytes_per_second; }
};

// Nothing for a witness that is none: a set that is not of participants and switches or holds all participants, a
// multiplicity below 1, a potential of what is no switch or of one where trees of its direction branch, or no crossing
// at all. `classes` are those of the network, or alone() where the witness is not over images. With `weights` the roots
// are given, as of all but an allreduce, and what counts is the mean piece. O(arcs + size of the witness).
std::optional<ProvenByCuts> count_crossings(const CutsWitness& witness, const Fabric& fabric, const Network& network,
                                            const ArcClasses& classes, std::span<const uint64_t> weights = {});

bool holds_as_cuts(const CutsWitness& witness, const Fabric& fabric, const Collective& collective);
// The links that something is charged for, so that the proof rests on their bandwidths.
std::vector<LinkId> links_of_cuts(const CutsWitness& witness, const Fabric& fabric, const Collective& collective);
std::string describe_cuts(const CutsWitness& witness, const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan
