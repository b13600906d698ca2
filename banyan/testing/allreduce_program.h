// The throughput of the best allreduce, by a linear program that writes every flow out.
//
// An oracle for plan/bound/overlap.h, with which it shares no code: no cuts, but for every rank one flow that brings it
// all pieces from their roots within the links' spreading shares, and one that takes its contributions to the roots
// within their gathering shares, all of them columns of one program, given to CLP as it is. What enters a switch leaves
// it, unless it multicasts or reduces.
#pragma once

#include "banyan/fabric/fabric.h"
#include "banyan/schedule/collective.h"

namespace banyan::testing {

// Bytes per second, in floating point. For small fabrics: columns are links times twice the ranks.
double allreduce_throughput(const Fabric& fabric, const Collective& collective);

}  // namespace banyan::testing
