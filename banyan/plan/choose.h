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

// One plan of every planner of planner.h that has one, in the order of the table, whose first is the default; without
// those that take too long for so many participants. At least one, all accepted by the verifier. Throws the first
// planner's Error{unsupported} when no planner has any, and any other Error at once. `observer`, which may be null,
// receives the phase `others` only.
std::vector<Candidate> plans_of_all(const Fabric& fabric, const Collective& collective,
                                    PlanObserver* observer = nullptr);

// Keeps each of these plans that is best for some message size by the estimate of cost.h, with 5 % more time per byte
// if several streams share a link that decides the time. Each kept plan is lower, and slower at large sizes, than the
// one before; the first is the quickest for large messages. Throws as plans_of_all.
std::vector<Candidate> plan_candidates(const Fabric& fabric, const Collective& collective,
                                       PlanObserver* observer = nullptr);

// The one with the least estimated time for `total` bytes; of equal ones the first.
const Candidate& choose(const std::vector<Candidate>& candidates, Bytes total, schedule::AlphaBeta model = {});

// The number of the plan, in what plans_of_all() returns, that calls of this size follow in the runtime: it chooses by
// the estimate of plan_candidates() among those that are best for some size.
size_t choose_of_all(const std::vector<Candidate>& all, Bytes total);

// The piece in which each chunk should move. Small pieces fill the trees sooner, and cost a message each: the sum of
// both is least at sqrt(time at the busiest link * cost of a message / height), times that link's bandwidth. A power of
// two from kLeastSlice to `most`, which is what our own transports hold at once.
constexpr Bytes kLeastSlice{8 << 10}, kMostSlice{256 << 10};
Bytes choose_slice(const Schedule& schedule, Bytes total, schedule::AlphaBeta model = {}, Bytes most = kMostSlice);

}  // namespace banyan::plan
