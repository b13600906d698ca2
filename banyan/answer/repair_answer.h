// Repaired plans as they are answered: with what changed, accepted by the verifier.
#pragma once

#include <string>

#include "banyan/plan/repair/repair.h"
#include "banyan/schedule/schedule_file.h"

namespace banyan::answer {

struct RepairAnswer {
  plan::Repair repair;
  std::string planner;  // "forest, repaired"; "forest" where all was planned anew
  double seconds = 0;   // verification included
};

// Repairs the plan of `file` for `fabric` (plan/repair/repair.h) and has the verifier look at it. The file must be a
// valid plan (read_valid_plan). A repaired plan that the verifier rejects is a bug and ends the process. Throws what
// repair_plan throws.
RepairAnswer repair_plan(const schedule::ScheduleFile& file, const Fabric& fabric, plan::PlanObserver* observer);

// As to_file of a PlanAnswer.
schedule::ScheduleFile to_file(RepairAnswer&& answer);

}  // namespace banyan::answer
