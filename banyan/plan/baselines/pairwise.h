// Pairwise exchange: the all-to-all that MPI libraries and NCCL's users run, to compare others with.
//
// Every rank sends every other one its shard directly, along the first of the shortest paths (fabric/routing.h). If no
// path leads through switches only, as on tori, the ranks on a shortest path forward.
#pragma once

#include "banyan/schedule/schedule.h"

namespace banyan::plan {

// For an all-to-all with any traffic. Throws Error{unsupported} if a shortest path passes through a rank that does not
// take part, naming it.
Schedule plan_pairwise(const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan
