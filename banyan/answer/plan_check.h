// Plans from files, and whether they do what they promise.
#pragma once

#include <string>

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"

namespace banyan::answer {

// Throws what read_schedule and parse_schedule throw, and Error{invalid_input} with the verifier's reason for a plan
// that does not do what it promises: such a file is not exported, drawn or run.
schedule::ScheduleFile read_valid_plan(const std::string& path);
schedule::ScheduleFile parse_valid_plan(std::string_view json, const std::string& where);

// Throws Error{mismatch} when the plan was made for another fabric than the one that the user names.
void require_same_fabric(const schedule::ScheduleFile& file, const std::string& where, const Fabric& fabric,
                         const std::string& fabric_text);

struct Examination {
  schedule::Verdict verdict;
  Bound bound;  // computed anew: the file's own is only a claim. Unset when the plan is not valid
};
// Verifies the plan, then computes its bound; a file that claims another one is not valid. `observer` may be null.
Examination examine(const schedule::ScheduleFile& file, plan::PlanObserver* observer);

}  // namespace banyan::answer
