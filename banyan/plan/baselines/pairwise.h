// Pairwise exchange: the all-to-all that MPI libraries and NCCL's users run, to compare others with.
//
// Every rank sends every other one its shard directly, along the first of the shortest ways (fabric/routing.h). Where
// no way leads through switches only, as on tori, the ranks on a shortest way forward.
#pragma once

#include "banyan/schedule/schedule.h"

namespace banyan::plan {

// Of an all-to-all, with any traffic. Throws Error{unsupported} when a shortest way passes through a rank that does not
// take part, naming it.
Schedule plan_pairwise(const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan
