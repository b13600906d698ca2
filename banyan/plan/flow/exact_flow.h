// The concurrent flow as a linear program, one commodity for each source.
//
//   minimise  load   subject to   for every source s: y_s ships D(s,t) from s to each t
//                                 for every arc a:    sum over s of y_s(a) <= load * bandwidth(a)
//
// If the fabric declares symmetries that the demand shares, one source of each orbit stands for all and one row for all
// arcs of an orbit: the average of a solution's images is a solution that is symmetric, and as good. The solution that
// is taken crosses the fewest arcs out of terminals, and among such ones the fewest arcs, so that paths are short and
// pass through few ranks. A solution at a vertex of the polytope has few arcs besides one tree for each source, so that
// most pairs have one path.
//
// The duals of the arcs' rows are the lengths of arc_lengths.h; what they prove is counted anew in fractions. The flow
// is made exact as well: its common denominator is found, it is checked in whole numbers, and taken apart into paths.
#pragma once

#include "banyan/plan/flow/concurrent_flow.h"
#include "banyan/plan/graph/network_symmetry.h"

namespace banyan::plan {

// The number of columns of the program: its size.
size_t exact_flow_columns(const Network& network, const Demand& demand, const NetworkSymmetry& symmetry);

// `demand` has the symmetry. A path must join every pair with demand. Pairs whose demand is lost beside that of others
// in doubles take the path that is shortest by the duals, and are shipped to the last unit all the same. If the program
// cannot be solved, since bandwidths or demands are too diverse, paths are balanced instead.
ConcurrentFlow solve_exactly(const Network& network, const Demand& demand, const NetworkSymmetry& symmetry,
                             const FlowOptions& options = {});

}  // namespace banyan::plan
