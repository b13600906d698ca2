#include "banyan/answer/predicted_plans.h"

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::answer {
namespace {

constexpr size_t kMostSizes = 64;

}  // namespace

TimedSize time_plans(std::span<const NamedPlan> plans, Bytes total, const TimingOptions& options) {
  CHECK(!plans.empty());
  TimedSize size{.total = total, .timed = {}};
  for (const NamedPlan& plan : plans) {
    size.timed.push_back(time_plan(*plan.schedule, total, options));
    if (!size.is_complete()) break;
    const auto time = [&](size_t i) { return size.timed[i].simulation.time; };
    if (time(size.timed.size() - 1) < time(size.best)) size.best = size.timed.size() - 1;
  }
  return size;
}

std::vector<TimedSize> time_sizes(std::span<const NamedPlan> plans, std::span<const Bytes> sizes,
                                  const TimingOptions& options) {
  std::vector<TimedSize> result;
  for (const Bytes total : sizes) {
    result.push_back(time_plans(plans, total, options));
    if (!result.back().is_complete()) break;
  }
  return result;
}

std::vector<Bytes> doubling_sizes(Bytes from, Bytes to) {
  if (from.count() == 0) throw invalid("sizes that double cannot begin at zero bytes");
  if (to < from)
    throw invalid("the range from " + from.to_string() + " to " + to.to_string() + " ends before it begins");
  std::vector<Bytes> sizes;
  for (uint64_t size = from.count(); size <= to.count() && sizes.size() < kMostSizes; size *= 2) {
    sizes.push_back(Bytes(size));
  }
  return sizes;
}

predict::ReportInput report_of(std::span<const NamedPlan> plans, std::span<const TimedSize> sizes,
                               const std::string& fabric) {
  CHECK(!sizes.empty());
  const TimedSize& last = sizes.back();
  const size_t shown = last.is_complete() ? last.best : last.timed.size() - 1;
  const predict::ScheduleSimulation& simulation = last.timed[shown].simulation;
  const Schedule& schedule = *plans[shown].schedule;
  predict::ReportInput input{.prediction = {}, .fabric = schedule.fabric(), .points = {}, .what_if = {}};
  const std::string kind(to_string(schedule.collective().kind()));
  input.prediction.title = sizes.size() == 1
                               ? kind + " of " + last.total.to_string() + " on " + fabric + ", " + plans[shown].name
                               : kind + " of " + sizes.front().total.to_string() + " to " + last.total.to_string() +
                                     " on " + fabric + "; links under " + plans[shown].name + " at the last size";
  input.prediction.time = simulation.time;
  input.prediction.complete = last.is_complete();
  input.prediction.window = simulation.window;
  for (size_t link = 0; link < simulation.link_bytes.size(); ++link) {
    input.prediction.links.push_back(
        {.bytes = simulation.link_bytes[link], .full = simulation.link_full[link], .load = {}});
  }
  for (const TimedSize& size : sizes) {
    for (size_t p = 0; p < size.timed.size(); ++p) {
      const predict::ScheduleSimulation& timed = size.timed[p].simulation;
      if (!timed.complete) continue;
      input.points.push_back({.total = size.total,
                              .plan = plans[p].name,
                              .time = timed.time,
                              .algbw = timed.algbw,
                              .busbw = timed.busbw,
                              .slice = size.timed[p].slice});
    }
  }
  return input;
}

}  // namespace banyan::answer
