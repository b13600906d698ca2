// Chooses the plan for a message size: low trees for small ones, the optimum for large ones.
#pragma once

#include <string>
#include <vector>

#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

struct Candidate {
  std::string planner;  // its name in the table of planner.h
  Schedule schedule;
};

// Asks every planner of planner.h, and keeps each plan that is best for some message size by the estimate of cost.h,
// which is 5 % worse where several streams share a link that decides the time. Each kept plan is lower, and slower at
// large sizes, than the one before; the first is the quickest for large messages. At least one. The verifier accepts
// every one. Throws what the forest planner throws when no other planner has a plan either. `observer`, which may be
// null, hears of the phase `others` only.
std::vector<Candidate> plan_candidates(const Fabric& fabric, const Collective& collective,
                                       PlanObserver* observer = nullptr);

// The one with the least estimated time for `total` bytes; of equal ones the first.
const Candidate& choose(const std::vector<Candidate>& candidates, Bytes total, schedule::AlphaBeta model = {});

// The piece in which each chunk should move. Small pieces fill the trees sooner, and cost a message each: the sum of
// both is least at sqrt(time at the busiest link * cost of a message / height), times that link's bandwidth. A power of
// two from kLeastSlice to `most`, which is what our own transports hold at once.
constexpr Bytes kLeastSlice{8 << 10}, kMostSlice{256 << 10};
Bytes choose_slice(const Schedule& schedule, Bytes total, schedule::AlphaBeta model = {}, Bytes most = kMostSlice);

}  // namespace banyan::plan
