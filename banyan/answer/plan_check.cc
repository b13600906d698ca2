#include "banyan/answer/plan_check.h"

#include "banyan/base/error.h"
#include "banyan/fabric/describe.h"

namespace banyan::answer {
namespace {

schedule::ScheduleFile require_valid(schedule::ScheduleFile file, const std::string& where) {
  const schedule::Verdict verdict = verify(file.schedule, file.claimed_seconds_per_byte);
  if (verdict.valid) return file;
  throw Error(ErrorCode::invalid_input, "is no valid plan: " + verdict.reason + "; plan again", where);
}

}  // namespace

schedule::ScheduleFile read_valid_plan(const std::string& path) {
  return require_valid(schedule::read_schedule(path), path);
}

schedule::ScheduleFile parse_valid_plan(std::string_view json, const std::string& where) {
  return require_valid(schedule::parse_schedule(json, where), where);
}

void require_same_fabric(const schedule::ScheduleFile& file, const std::string& where, const Fabric& fabric,
                         const std::string& fabric_text) {
  const Fabric& planned = file.schedule.fabric();
  if (planned.fingerprint() == fabric.fingerprint()) return;
  throw Error(ErrorCode::mismatch,
              "was planned for another fabric (" + describe_counts(planned) + ", fingerprint " + planned.fingerprint() +
                  ") than " + fabric_text + " (" + describe_counts(fabric) + ", fingerprint " + fabric.fingerprint() +
                  "); plan again for this one",
              where);
}

Examination examine(const schedule::ScheduleFile& file, plan::PlanObserver* observer) {
  using Phase = plan::PlanObserver::Phase;
  if (observer) observer->phase_begins(Phase::verifying);
  Examination examined{.verdict = verify(file.schedule, file.claimed_seconds_per_byte), .bound = {}};
  if (!examined.verdict.valid) return examined;
  if (observer) observer->phase_begins(Phase::bound);
  examined.bound = plan::compute_bound(file.schedule.fabric(), file.schedule.collective(), observer);
  if (file.bound_seconds_per_byte && *file.bound_seconds_per_byte != examined.bound.seconds_per_byte) {
    examined.verdict.valid = false;
    examined.verdict.reason = "it claims a bound of " + file.bound_seconds_per_byte->to_string() +
                              " seconds per byte, but the bound is " + examined.bound.seconds_per_byte.to_string();
  }
  return examined;
}

}  // namespace banyan::answer
