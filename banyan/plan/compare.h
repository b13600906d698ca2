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

// One row for `forest`, then one for each other row of planners(), whose schedules are made here; `observer`, which may
// be null, hears of the phase `others`.
std::vector<ComparisonRow> compare_planners(const Schedule& forest, const Bound& bound, const std::vector<Bytes>& sizes,
                                            const schedule::AlphaBeta& model = {}, PlanObserver* observer = nullptr);

}  // namespace banyan::plan
