// The narrowest cut: the proof of the bound where one direction of a collective is all that counts.
#pragma once

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// The cut with the greatest ratio of what must cross it to its bandwidth; of an allreduce of its reduce-scatter
// (`gathering`) or of its allgather. Throws as compute_bound.
CutWitness narrowest_cut(const Fabric& fabric, const Collective& collective, bool gathering,
                         PlanObserver* observer = nullptr);

// The narrowest cut of a connected network, which is turned round for gathering.
CutWitness narrowest_cut(const Network& network, const Collective& collective, bool gathering);

// Throws when something rooted at one participant cannot come to another: one with weight must reach all, so the first
// of them must, and the others with weight must reach it.
void check_connected(const Network& network, const Fabric& fabric, const Collective& collective);

// The links that cross it.
std::vector<LinkId> links_of_cut(const CutWitness& witness, const Fabric& fabric, const Collective& collective);

bool holds_as_cut(const CutWitness& witness, const Fabric& fabric, const Collective& collective);
std::string describe_cut(const CutWitness& witness, const Fabric& fabric, const Collective& collective);

// "gpu0-gpu7, gpu9": runs of names that differ in a final number only.
std::string name_list(const Fabric& fabric, std::vector<NodeId> ids);

}  // namespace banyan::plan
