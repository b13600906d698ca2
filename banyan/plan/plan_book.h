// PlanBook: plans for the collectives of one fabric, each made once and kept.
//
// Code that plans for many calls (the runtime, predictions of jobs) asks a book, so that equal questions get the same
// plan. One thread. References stay good as long as the book.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "banyan/plan/choose.h"
#include "banyan/plan/planner.h"

namespace banyan::plan {

struct PlanQuestion {
  CollectiveKind kind = CollectiveKind::all_gather;
  std::vector<NodeId> members;  // ranks of the fabric, in shard order
  uint32_t root = 0;            // a place among the members; only where the collective has a root

  friend auto operator<=>(const PlanQuestion&, const PlanQuestion&) = default;
};

class PlanBook {
 public:
  explicit PlanBook(Fabric fabric) : fabric_(std::move(fabric)) {}

  const Fabric& fabric() const { return fabric_; }

  // The plan of one planner. Throws as make_plan.
  const Schedule& plan(const Planner& planner, const PlanQuestion& question);
  // The plans of all planners, as plan_candidates keeps and orders them. Throws what that throws.
  const std::vector<Candidate>& candidates(const PlanQuestion& question);

 private:
  Collective collective(const PlanQuestion& question) const;

  const Fabric fabric_;
  std::map<std::pair<const Planner*, PlanQuestion>, Schedule> plans_;
  std::map<PlanQuestion, std::vector<Candidate>> candidates_;
};

}  // namespace banyan::plan
