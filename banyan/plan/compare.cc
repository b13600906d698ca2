#include "banyan/plan/compare.h"

#include "banyan/base/error.h"
#include "banyan/plan/planner.h"

namespace banyan::plan {
namespace {

void measure(ComparisonRow& row, const Schedule& schedule, const Bound& bound, const std::vector<Bytes>& sizes,
             const schedule::AlphaBeta& model) {
  row.seconds_per_byte = seconds_per_byte(schedule);
  row.heights = heights(schedule);
  row.messages = message_counts(schedule);
  row.chunks = schedule.chunk_count();
  for (const Bytes size : sizes) row.estimate_seconds.push_back(estimate_seconds(schedule, size, model));
  row.over_bound = row.seconds_per_byte.to_double() / bound.seconds_per_byte.to_double();
}

}  // namespace

std::vector<ComparisonRow> compare_planners(const Schedule& forest, const Bound& bound, const std::vector<Bytes>& sizes,
                                            const schedule::AlphaBeta& model, PlanObserver* observer) {
  std::vector<ComparisonRow> rows;
  std::optional<OthersObserver> others;
  if (observer) others.emplace(*observer);
  measure(rows.emplace_back(ComparisonRow{.planner = std::string(planners().front().name)}), forest, bound, sizes,
          model);
  for (const Planner* planner : planners_of(forest.collective().kind())) {
    if (planner == &planners().front()) continue;
    ComparisonRow& row = rows.emplace_back(ComparisonRow{.planner = std::string(planner->name)});
    if (others) others->next();
    try {
      measure(row, planner->make(forest.fabric(), forest.collective(), others ? &*others : nullptr), bound, sizes,
              model);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      row.why_not = error.message();
    }
  }
  return rows;
}

}  // namespace banyan::plan
