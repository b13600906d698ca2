// An oracle for concurrent flows that shares nothing with their solvers: one variable for every simple path of every
// pair. For small fabrics only.
#pragma once

#include <optional>

#include "banyan/fabric/fabric.h"
#include "banyan/schedule/collective.h"

namespace banyan::plan {

// The least seconds that one byte of M takes, to the precision of a linear program in doubles. Nothing where a pair
// with traffic cannot reach each other through what takes part.
std::optional<double> oracle_seconds_per_byte(const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan
