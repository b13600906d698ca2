#include "banyan/plan/choose.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/plan/planner.h"

namespace banyan::plan {
namespace {

// Streams that share a link never fill it quite: they come in bursts, and one that is late leaves a gap. Measured over
// TCP on a leaf-spine of 16: a ring reaches 96 % of the bound, trees of 15 senders a receiver 91 %.
constexpr double kLostToSharing = 0.05;

// Whether several streams cross a link that decides the time.
bool shares_busiest_links(const Schedule& schedule) {
  constexpr double kBusy = 0.9;  // of the busiest
  const std::vector<uint64_t> loads = link_loads(schedule);
  std::vector<uint32_t> streams(loads.size(), 0);
  for (uint32_t route = 0; route < schedule.route_count(); ++route) {
    for (const LinkId link : schedule.route(RouteId{route}).links) ++streams[index(link)];
  }
  const auto time = [&](size_t link) {
    return static_cast<double>(loads[link]) /
           static_cast<double>(schedule.fabric().links()[link].bandwidth.bytes_per_second());
  };
  double most = 0;
  for (size_t link = 0; link < loads.size(); ++link) most = std::max(most, time(link));
  for (size_t link = 0; link < loads.size(); ++link) {
    if (streams[link] > 1 && time(link) >= kBusy * most) return true;
  }
  return false;
}

// What decides the time for every size: the height with its latency, and the time per byte.
struct Cost {
  double start = 0, per_byte = 0;

  double of(Bytes total) const { return start + per_byte * static_cast<double>(total.count()); }
};

Cost cost_of(const Schedule& schedule, schedule::AlphaBeta model = {}) {
  const double share = shares_busiest_links(schedule) ? 1 + kLostToSharing : 1;
  return {.start = estimate_seconds(schedule, Bytes(0), model),
          .per_byte = seconds_per_byte(schedule).to_double() * share};
}

// From the quickest per byte on, those that start sooner than all before.
std::vector<size_t> best_for_some_size(const std::vector<Candidate>& all) {
  std::vector<std::pair<Cost, size_t>> order;
  for (size_t i = 0; i < all.size(); ++i) order.emplace_back(cost_of(all[i].schedule), i);
  std::ranges::stable_sort(order, {}, [](const auto& a) { return std::pair(a.first.per_byte, a.first.start); });
  std::vector<size_t> best;
  double least_start = 0;
  for (const auto& [cost, i] : order) {
    if (!best.empty() && cost.start >= least_start) continue;
    least_start = cost.start;
    best.push_back(i);
  }
  return best;
}

}  // namespace

std::vector<Candidate> plans_of_all(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  std::optional<OthersObserver> others;
  if (observer) others.emplace(*observer);
  std::vector<Candidate> all;
  std::optional<Error> why_not;
  for (const Planner* planner : planners_of(collective.kind())) {
    if (others) others->next();
    if (collective.participants().size() > planner->most_participants_to_choose_from) continue;
    try {
      all.push_back({std::string(planner->name), make_plan(*planner, fabric, collective, others ? &*others : nullptr)});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      if (!why_not) why_not = error;
    }
  }
  if (all.empty()) {
    if (why_not) throw *why_not;
    throw Error(ErrorCode::unsupported, "no planner has schedules for " + std::string(to_string(collective.kind())) +
                                            " among " + std::to_string(collective.participants().size()) + " ranks");
  }
  return all;
}

std::vector<Candidate> plan_candidates(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  std::vector<Candidate> all = plans_of_all(fabric, collective, observer);
  std::vector<Candidate> best;
  for (const size_t i : best_for_some_size(all)) best.push_back(std::move(all[i]));
  return best;
}

const Candidate& choose(const std::vector<Candidate>& candidates, Bytes total, schedule::AlphaBeta model) {
  CHECK(!candidates.empty());
  return *std::ranges::min_element(candidates, {},
                                   [&](const Candidate& a) { return cost_of(a.schedule, model).of(total); });
}

size_t choose_of_all(const std::vector<Candidate>& all, Bytes total) {
  const std::vector<size_t> kept = best_for_some_size(all);
  CHECK(!kept.empty());
  return *std::ranges::min_element(kept, {}, [&](size_t a) { return cost_of(all[a].schedule).of(total); });
}

Bytes choose_slice(const Schedule& schedule, Bytes total, schedule::AlphaBeta model, Bytes most_bytes) {
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
      std::clamp(best, static_cast<double>(kLeastSlice.count()), static_cast<double>(most_bytes.count()));
  return Bytes(std::bit_floor(static_cast<uint64_t>(bounded)));
}

}  // namespace banyan::plan
