// The forest and all other planners side by side: throughput, height, estimated times, distance from the bound.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "banyan/plan/bound/bound.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

struct ComparisonRow {
  std::string planner;
  std::string why_not = {};        // not empty: this algorithm cannot run here; the figures are then unset
  Fraction seconds_per_byte = {};  // by the most loaded link
  schedule::Heights heights = {};
  schedule::MessageCounts messages = {};
  uint64_t chunks = 0;
  std::vector<double> estimate_seconds = {};  // one per size asked for
  double over_bound = 0;                      // seconds_per_byte / bound; 1 is optimal
};

// The measures of a comparison. The bound is borrowed.
struct ComparisonScale {
  const Bound& bound;
  std::vector<Bytes> sizes;
  schedule::AlphaBeta model = {};
};

// One row for `forest`, a plan of the first planner of its kind, then one for each other of that kind, whose schedules
// are made here; `observer`, which may be null, hears of the phase `others`.
std::vector<ComparisonRow> compare_planners(const Schedule& forest, const ComparisonScale& scale,
                                            PlanObserver* observer = nullptr);

}  // namespace banyan::plan
