// The planners, as one table: choosers, comparisons, predictions, the runtime and the command line read it. A new
// planner is one more row.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

struct Planner {
  std::string_view name;               // as users and files write it: "forest", "double-binary-tree"
  std::string_view summary;            // a few words for a list of planners
  bool (*plans)(CollectiveKind kind);  // whether it has schedules of this kind at all
  // A chooser leaves this planner out beyond so many participants: making its trees would take longer than they save.
  size_t most_participants_to_choose_from;
  // All edges take the first of several paths that are as good; spread_routes.h has them take all.
  bool takes_first_ways;
  // Makes a schedule of a kind that it plans. Throws Error{unsupported} with the reason when there is no such schedule
  // for this fabric or collective, and what plan_forest throws. `observer` may be null; baselines tell it nothing.
  Schedule (*make)(const Fabric& fabric, const Collective& collective, PlanObserver* observer);
};

// The forest comes first.
std::span<const Planner> planners();
// Those that plan this kind, in the same order; the first is the default.
std::vector<const Planner*> planners_of(CollectiveKind kind);

// Reports a walk through the table to a listener as one phase, `others`. The phases that a forest on the way reports
// are passed on as works_on() alone.
class OthersObserver : public PlanObserver {
 public:
  explicit OthersObserver(PlanObserver& listener) : listener_(listener) { listener_.phase_begins(Phase::others); }
  void next() { listener_.progress(static_cast<double>(begun_++) / static_cast<double>(planners().size())); }

  void phase_begins(Phase) override { listener_.works_on(); }
  void progress(double) override { listener_.works_on(); }
  void works_on() override { listener_.works_on(); }

 private:
  PlanObserver& listener_;
  size_t begun_ = 0;
};

// Throws Error{invalid_input} with the known names.
const Planner& planner_named(std::string_view name);

// The schedule of `planner`, accepted by the verifier. A schedule that the verifier rejects is our own bug and ends the
// process. Throws as Planner::make, and Error{unsupported} for a kind that it does not plan.
Schedule make_plan(const Planner& planner, const Fabric& fabric, const Collective& collective,
                   PlanObserver* observer = nullptr);

// Ends the process when the verifier rejects a schedule that Banyan has made, or its time is not `claim`.
void check_own_plan(const Schedule& schedule, std::string_view planner);
void check_own_plan(const Schedule& schedule, std::string_view planner, const Fraction& claim);

}  // namespace banyan::plan
