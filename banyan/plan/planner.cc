#include "banyan/plan/planner.h"

#include <array>
#include <cstdint>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/plan/baselines/baselines.h"
#include "banyan/plan/baselines/pairwise.h"
#include "banyan/plan/direct/bfb.h"
#include "banyan/plan/flow/all_to_all.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/plan/two_tier/two_tier_schedule.h"
#include "banyan/schedule/verify.h"

namespace banyan::plan {
namespace {

constexpr size_t kAnyNumber = SIZE_MAX, kNever = 0;
// Each of the others has as many tree edges as the square of the participants.
constexpr size_t kManyParticipants = 256;

// What one rank has, or is to have, goes to all or comes from all.
bool for_all(CollectiveKind kind) { return is_planned(kind) && !is_personal(kind); }

template <Baseline baseline>
Schedule make_baseline(const Fabric& fabric, const Collective& collective, PlanObserver*) {
  return plan_baseline(baseline, fabric, collective);
}

Schedule plan_low_forest(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  const uint32_t least = least_tree_height(fabric, collective);
  return plan_forest(fabric, collective, {.trees = 1, .max_height = least, .lower = false, .observer = observer})
      .schedule;
}

const std::array kPlanners = {
    Planner{"forest", "spanning trees at the bound: the default", for_all, kAnyNumber, false,
            [](const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
              return plan_forest(fabric, collective, {.observer = observer}).schedule;
            }},
    Planner{"forest-1-tree", "the forest with one low tree per root, for small buffers", for_all, kAnyNumber, false,
            [](const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
              return plan_forest(fabric, collective, {.trees = 1, .observer = observer}).schedule;
            }},
    Planner{"low-forest", "trees as low as the fabric allows, one per root, for the smallest buffers", for_all,
            kManyParticipants, false, plan_low_forest},
    Planner{"ring", "one ring through all ranks", for_all, kManyParticipants, true, make_baseline<Baseline::ring>},
    Planner{"bidirectional-ring", "half of the data each way round a ring", for_all, kManyParticipants, true,
            make_baseline<Baseline::bidirectional_ring>},
    Planner{"binary-tree", "one balanced binary tree per root", for_all, kManyParticipants, true,
            make_baseline<Baseline::binary_tree>},
    Planner{"double-binary-tree", "two binary trees per root; the leaves of one are inner nodes of the other", for_all,
            kManyParticipants, true, make_baseline<Baseline::double_binary_tree>},
    Planner{"recursive-doubling", "exchange with partners at distances 1, 2, 4, ...", for_all, kManyParticipants, true,
            make_baseline<Baseline::recursive_doubling>},
    Planner{"hierarchical-ring", "a ring of boxes, and a ring inside each box", for_all, kManyParticipants, true,
            make_baseline<Baseline::hierarchical_ring>},
    Planner{"nccl-rings", "rings as NCCL builds them: one for each NIC of a box, several on a mesh; to compare with",
            for_all, kNever, true, make_baseline<Baseline::nccl_rings>},
    Planner{"bfb", "breadth-first broadcast along shortest paths, where ranks are joined directly", for_all,
            kManyParticipants, false,
            [](const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
              return plan_bfb(fabric, collective, observer).schedule;
            }},
    Planner{"flow", "paths of an all-to-all at its bound", is_personal, kAnyNumber, false,
            [](const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
              return plan_all_to_all(fabric, collective, {.observer = observer}).schedule;
            }},
    Planner{"two-tier", "balance inside boxes, then stages in which each box sends to one other", is_personal,
            kManyParticipants, true,
            [](const Fabric& fabric, const Collective& collective, PlanObserver*) {
              return two_tier_schedule(fabric, collective);
            }},
    Planner{"pairwise", "all ranks exchange directly, by shortest ways", is_personal, kAnyNumber, true,
            [](const Fabric& fabric, const Collective& collective, PlanObserver*) {
              return plan_pairwise(fabric, collective);
            }},
};

void check_accepted(const schedule::Verdict& verdict, std::string_view planner) {
  CHECK(verdict.valid) << "the verifier rejects a plan of planner " << planner << ": " << verdict.reason;
}

}  // namespace

std::span<const Planner> planners() { return kPlanners; }

std::vector<const Planner*> planners_of(CollectiveKind kind) {
  std::vector<const Planner*> those;
  for (const Planner& planner : kPlanners) {
    if (planner.plans(kind)) those.push_back(&planner);
  }
  return those;
}

const Planner& planner_named(std::string_view name) {
  NearestName meant(name);
  std::string known;
  for (const Planner& planner : kPlanners) {
    if (planner.name == name) return planner;
    meant.offer(planner.name);
    known += (known.empty() ? "" : ", ") + std::string(planner.name);
  }
  throw invalid("unknown planner " + in_quotes(name) + meant.hint() + " (known: " + known + ")");
}

Schedule make_plan(const Planner& planner, const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  if (!planner.plans(collective.kind())) {
    throw Error(ErrorCode::unsupported, "planner " + std::string(planner.name) + " has no schedules for " +
                                            std::string(to_string(collective.kind())));
  }
  Schedule schedule = planner.make(fabric, collective, observer);
  check_own_plan(schedule, planner.name);
  return schedule;
}

void check_own_plan(const Schedule& schedule, std::string_view planner) { check_accepted(verify(schedule), planner); }
void check_own_plan(const Schedule& schedule, std::string_view planner, const Fraction& claim) {
  check_accepted(verify(schedule, claim), planner);
}

}  // namespace banyan::plan
