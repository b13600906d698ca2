#include "apps/plan/plan_source.h"

#include "apps/report.h"
#include "banyan/base/error.h"
#include "banyan/plan/planner.h"
#include "banyan/schedule/cost.h"

namespace banyan::app {
namespace {

// Every rank roots a tree that spans all: the edges of a plan are the square of this, and so is the memory.
constexpr size_t kMaxParticipants = 16'384;

void require_plannable(const Collective& collective) {
  const size_t count = collective.participants().size();
  if (count <= kMaxParticipants) return;
  throw Error(ErrorCode::unsupported, std::to_string(count) + " ranks are more than the " +
                                          std::to_string(kMaxParticipants) +
                                          " that one plan is made for; choose some with --ranks");
}

}  // namespace

CheckedPlan plan_and_verify(const Fabric& fabric, const Collective& collective, plan::ForestOptions options,
                            Progress& progress) {
  require_plannable(collective);
  const Stopwatch total;
  PlanClock clock(progress);
  options.observer = &clock;
  plan::ForestPlan plan = plan_forest(fabric, collective, options);
  clock.planning_ended();
  const Stopwatch verifying;
  progress.say("verifying the plan");
  plan::check_own_plan(plan.schedule, "forest", plan.seconds_per_byte);
  return {.plan = std::move(plan),
          .seconds = {.bound = clock.seconds(plan::PlanObserver::Phase::bound),
                      .switches = clock.seconds(plan::PlanObserver::Phase::switches),
                      .packing = clock.seconds(plan::PlanObserver::Phase::one_root) +
                                 clock.seconds(plan::PlanObserver::Phase::packing),
                      .lowering = clock.seconds(plan::PlanObserver::Phase::lowering),
                      .verify = verifying.seconds(),
                      .total = total.seconds()}};
}

schedule::ScheduleFile read_valid_plan(const std::string& path) {
  schedule::ScheduleFile file = schedule::read_schedule(path);
  const schedule::Verdict verdict = verify(file.schedule, file.claimed_seconds_per_byte);
  if (!verdict.valid)
    throw Error(ErrorCode::invalid_input, "is no valid plan: " + verdict.reason + "; plan again", path);
  return file;
}

void require_same_fabric(const schedule::ScheduleFile& file, const std::string& path, const Fabric& fabric,
                         const std::string& fabric_text) {
  const Fabric& planned = file.schedule.fabric();
  if (planned.fingerprint() == fabric.fingerprint()) return;
  throw Error(ErrorCode::mismatch,
              "was planned for another fabric (" + describe_counts(planned) + ", fingerprint " + planned.fingerprint() +
                  ") than " + fabric_text + " (" + describe_counts(fabric) + ", fingerprint " + fabric.fingerprint() +
                  "); plan again for this one",
              path);
}

}  // namespace banyan::app
