// Plans that the commands work on: made here and checked, or read from a file and checked.
#pragma once

#include <string>

#include "apps/plan/plan_clock.h"
#include "banyan/plan/forest.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"

namespace banyan::app {

struct PlanSeconds {
  double bound = 0, switches = 0, packing = 0, lowering = 0, verify = 0;
  double total = 0;  // all of it, verification included
};

struct CheckedPlan {
  plan::ForestPlan plan;
  PlanSeconds seconds;
};

// Plans a forest and has the verifier look at it. A plan of ours that the verifier rejects, or whose time is not what
// the planner says, is a bug and ends the process. Throws what plan_forest throws, and Error{unsupported} beyond 16384
// ranks.
CheckedPlan plan_and_verify(const Fabric& fabric, const Collective& collective, plan::ForestOptions options,
                            Progress& progress);

// Throws Error{invalid_input} with the verifier's reason for a plan that does not do what it promises: such a file is
// not exported, drawn or run.
schedule::ScheduleFile read_valid_plan(const std::string& path);

// Throws Error{mismatch} when the plan was made for another fabric than the one that the user names.
void require_same_fabric(const schedule::ScheduleFile& file, const std::string& path, const Fabric& fabric,
                         const std::string& fabric_text);

}  // namespace banyan::app
