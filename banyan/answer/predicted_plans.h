// Predictions of plans, by size: which of several is the quickest, and the report about it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/answer/timed_plan.h"
#include "banyan/predict/report/report_input.h"
#include "banyan/schedule/schedule.h"

namespace banyan::answer {

struct NamedPlan {
  std::string name;
  std::shared_ptr<const Schedule> schedule;  // may be large
};

// One size, simulated with every plan.
struct TimedSize {
  Bytes total;
  std::vector<TimedPlan> timed;  // by plan, up to one that was interrupted
  size_t best = 0;               // of those that were not: the quickest, of equal ones the first
  bool is_complete() const { return timed.back().simulation.complete; }
};

// At least one plan is needed. Stops after a simulation that options.observer has ended.
TimedSize time_plans(std::span<const NamedPlan> plans, Bytes total, const TimingOptions& options);
// A result for each size, up to one that was interrupted.
std::vector<TimedSize> time_sizes(std::span<const NamedPlan> plans, std::span<const Bytes> sizes,
                                  const TimingOptions& options);

// From `from` to at most `to`, each twice the one before; at most 64. Throws Error{invalid_input} when that is none.
std::vector<Bytes> doubling_sizes(Bytes from, Bytes to);

// The links are those of the largest size, under its best plan. `fabric` is what titles call it.
predict::ReportInput report_of(std::span<const NamedPlan> plans, std::span<const TimedSize> sizes,
                               const std::string& fabric);

}  // namespace banyan::answer
