// The planner behind communicators that span hosts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/run/plan_source.h"

namespace banyan {

struct PlannerOptions {
  // A file or a generator's spec, whose ranks are the processes of the job, or just those of the communicator, in
  // order. Empty: hosts hang on one switch, and the ranks of a host on another.
  std::string fabric = {};
  std::string plan = {};    // a schedule that is used for its collective; empty: none
  std::string routes = {};  // fabric/route_book.h; empty: the network offers no choice
  uint64_t slice_bytes = 0;
};

// None for one rank. Throws Error naming what is wrong with a file.
std::shared_ptr<PlanSource> make_planner(const PlannerOptions& options, const Seating& seating);

}  // namespace banyan
