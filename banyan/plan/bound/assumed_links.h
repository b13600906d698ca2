// Assumptions of a bound: the links of its proof whose bandwidth is assumed (fabric.h). While there are any, the bound
// holds as far as is known, since a link that is faster in truth would let collectives be faster.
#pragma once

#include <string>
#include <vector>

#include "banyan/plan/bound/bound.h"

namespace banyan::plan {

// Ascending. O(links + size of the witness), and of an allreduce what holds() takes.
std::vector<LinkId> assumed_links(const Witness& witness, const Fabric& fabric, const Collective& collective);

// "box0/cpu0-box0/cpu1 (6 GB/s) and 7 more": each pair of nodes once.
std::string describe_assumed(const std::vector<LinkId>& links, const Fabric& fabric);

}  // namespace banyan::plan
