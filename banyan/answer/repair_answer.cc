#include "banyan/answer/repair_answer.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "banyan/plan/planner.h"

namespace banyan::answer {
namespace {

constexpr std::string_view kRepaired = ", repaired";
constexpr size_t kMaxPlannerName = 80;  // of a schedule file

std::string name_of_planner(const plan::Repair& repair, const std::string& before) {
  if (repair.planned_anew()) return "forest";
  if (before.ends_with(kRepaired) || before.size() + kRepaired.size() > kMaxPlannerName) return before;
  return before + std::string(kRepaired);
}

}  // namespace

RepairAnswer repair_plan(const schedule::ScheduleFile& file, const Fabric& fabric, plan::PlanObserver* observer) {
  const auto begun = std::chrono::steady_clock::now();
  plan::Repair repair = plan::repair_plan(file.schedule, fabric, {.observer = observer});
  std::string planner = name_of_planner(repair, file.planner);
  if (observer) observer->phase_begins(plan::PlanObserver::Phase::verifying);
  plan::check_own_plan(repair.schedule, planner, repair.seconds_per_byte);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  return {.repair = std::move(repair), .planner = std::move(planner), .seconds = took.count()};
}

schedule::ScheduleFile to_file(RepairAnswer&& answer) {
  plan::Repair& repair = answer.repair;
  schedule::ScheduleFile file{.schedule = std::move(repair.schedule),
                              .planner = std::move(answer.planner),
                              .claimed_seconds_per_byte = repair.seconds_per_byte,
                              .bound_seconds_per_byte = {}};
  if (repair.seconds_per_byte >= repair.bound.seconds_per_byte)
    file.bound_seconds_per_byte = repair.bound.seconds_per_byte;
  return file;
}

}  // namespace banyan::answer
