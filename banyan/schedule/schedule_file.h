// Schedules as files: "banyan": "schedule/1", described in docs/formats/schedule.md.
//
// A file stands alone: it holds the fabric it was planned for, the collective, the routes, the trees, the claimed time
// and, where the planner gave one, the bound. Reading proves that it is well formed (see schedule.h), not that it is
// right: that is verify.h. Writing the same plan gives the same bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "banyan/base/fraction.h"
#include "banyan/schedule/schedule.h"

namespace banyan::schedule {

struct ScheduleFile {
  Schedule schedule;
  std::string planner;                             // who made it: "forest", "ring"; free text, at most 80 characters
  Fraction claimed_seconds_per_byte;               // by the most loaded link
  std::optional<Fraction> bound_seconds_per_byte;  // no schedule of this kind can be faster, says the planner
};

// Throws Error{invalid_input} naming `where` and what is wrong (JSON syntax errors with line and column).
ScheduleFile parse_schedule(std::string_view json, const std::string& where);
ScheduleFile read_schedule(const std::string& path);

std::string format_schedule(const ScheduleFile& file);
void write_schedule(const std::string& path, const ScheduleFile& file);  // whole or not at all

}  // namespace banyan::schedule
