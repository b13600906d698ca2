// The planner behind communicators that span hosts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/run/plan_source.h"

namespace banyan::c {

// Plans on `fabric` (a file or a generator's spec), whose ranks are those of the communicator, in order; when it is
// empty, on one in which hosts hang on one switch, and the ranks of a host on another. `plan_file`, when it is not
// empty, is a schedule that is used for its collective. None for one rank. Throws Error naming what is wrong with
// either.
std::shared_ptr<PlanSource> make_planner(const std::string& fabric, const std::string& plan_file,
                                         const std::vector<uint32_t>& host_of_rank);

}  // namespace banyan::c
