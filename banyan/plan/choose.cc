#include "banyan/plan/choose.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/plan/baselines.h"
#include "banyan/plan/forest.h"
#include "banyan/schedule/verify.h"

namespace banyan {
namespace {

// Beyond so many participants the trees of all planners would take longer than they save.
constexpr size_t kManyParticipants = 256;

// What decides the estimate for every size: the height with its latency, and the time per byte.
struct Cost {
  double start = 0, per_byte = 0;
};

Cost cost_of(const Schedule& schedule) {
  return {.start = estimate_seconds(schedule, Bytes(0)), .per_byte = seconds_per_byte(schedule).to_double()};
}

void add(std::vector<Candidate>& candidates, std::string planner, Schedule schedule) {
  if (verify(schedule).valid) candidates.push_back({std::move(planner), std::move(schedule)});
}

}  // namespace

std::vector<Candidate> plan_candidates(const Fabric& fabric, const Collective& collective) {
  std::vector<Candidate> all;
  std::optional<Error> why_no_forest;
  try {
    add(all, "forest", plan_forest(fabric, collective).schedule);
    add(all, "forest, 1 tree", plan_forest(fabric, collective, {.trees = 1}).schedule);
  } catch (const Error& error) {
    why_no_forest = error;
  }
  if (collective.participants().size() <= kManyParticipants) {
    for (const Baseline baseline : all_baselines()) {
      try {
        add(all, std::string(to_string(baseline)), plan_baseline(baseline, fabric, collective));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;  // it does not exist for this fabric
      }
    }
  }
  if (all.empty()) {
    CHECK(why_no_forest.has_value()) << "no plan, and no reason why";
    throw *why_no_forest;
  }
  // From the quickest per byte on, keep what starts sooner than all before.
  std::vector<std::pair<Cost, size_t>> order;
  for (size_t i = 0; i < all.size(); ++i) order.emplace_back(cost_of(all[i].schedule), i);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.per_byte, a.first.start) < std::pair(b.first.per_byte, b.first.start);
  });
  std::vector<Candidate> best;
  double least_start = 0;
  for (const auto& [cost, i] : order) {
    if (!best.empty() && cost.start >= least_start) continue;
    least_start = cost.start;
    best.push_back(std::move(all[i]));
  }
  return best;
}

const Candidate& choose(const std::vector<Candidate>& candidates, Bytes total, const AlphaBeta& model) {
  CHECK(!candidates.empty());
  return *std::min_element(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    return estimate_seconds(a.schedule, total, model) < estimate_seconds(b.schedule, total, model);
  });
}

Bytes choose_slice(const Schedule& schedule, Bytes total, const AlphaBeta& model) {
  const std::vector<uint64_t> loads = link_loads(schedule);
  const std::span<const Link> links = schedule.fabric().links();
  double most = 0, bandwidth = 0;
  for (size_t i = 0; i < links.size(); ++i) {
    const auto rate = static_cast<double>(links[i].bandwidth.bytes_per_second());
    const double time = static_cast<double>(loads[i]) / rate;
    if (time <= most) continue;
    most = time;
    bandwidth = rate;
  }
  const double seconds = seconds_per_byte(schedule).to_double() * static_cast<double>(total.count());
  const double message = std::chrono::duration<double>(model.per_message).count();
  const double best = bandwidth * std::sqrt(seconds * message / std::max(1u, heights(schedule).max));
  const double bounded =
      std::clamp(best, static_cast<double>(kLeastSlice.count()), static_cast<double>(kMostSlice.count()));
  return Bytes(std::bit_floor(static_cast<uint64_t>(bounded)));
}

}  // namespace banyan
