#include "banyan/plan/compare.h"

#include <span>

#include "banyan/base/error.h"
#include "banyan/plan/planner.h"

namespace banyan::plan {
namespace {

void measure(ComparisonRow& row, const Schedule& schedule, const ComparisonScale& scale) {
  row.seconds_per_byte = seconds_per_byte(schedule);
  row.heights = heights(schedule);
  row.messages = message_counts(schedule);
  row.chunks = schedule.chunk_count();
  for (const Bytes size : scale.sizes) row.estimate_seconds.push_back(estimate_seconds(schedule, size, scale.model));
  row.over_bound = row.seconds_per_byte.to_double() / scale.bound.seconds_per_byte.to_double();
}

}  // namespace

std::vector<ComparisonRow> compare_planners(const Schedule& forest, const ComparisonScale& scale,
                                            PlanObserver* observer) {
  std::vector<ComparisonRow> rows;
  std::optional<OthersObserver> others;
  if (observer) others.emplace(*observer);
  const std::vector<const Planner*> those = planners_of(forest.collective().kind());
  measure(rows.emplace_back(ComparisonRow{.planner = std::string(those.front()->name)}), forest, scale);
  for (const Planner* planner : std::span(those).subspan(1)) {
    ComparisonRow& row = rows.emplace_back(ComparisonRow{.planner = std::string(planner->name)});
    if (others) others->next();
    try {
      measure(row, planner->make(forest.fabric(), forest.collective(), others ? &*others : nullptr), scale);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      row.why_not = error.message();
    }
  }
  return rows;
}

}  // namespace banyan::plan
