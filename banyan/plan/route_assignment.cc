#include "banyan/plan/route_assignment.h"

#include <algorithm>
#include <functional>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

// Differences below this part of the greatest load are rounding.
constexpr double kRounding = 1e-9;

class Assignment {
 public:
  Assignment(std::span<const double> capacities, std::span<const RoutedFlow> flows, const RouteOptions& options)
      : capacities_(capacities), flows_(flows), options_(options), loads_(capacities.size(), 0), taken_(flows.size()) {}

  std::vector<uint32_t> solve() && {
    place_all();
    tries_ = 0;
    while (tries_ < kMostTries && (move_single_flows() || move_pairs())) {
    }
    return std::move(taken_);
  }

 private:
  // A flow that goes from one route to another.
  struct Move {
    uint32_t flow = 0, to = 0;
  };

  void place_all();
  void place(uint32_t flow, uint32_t route, double sign);
  void change(std::span<const Move> moves);
  bool move_single_flows();
  bool move_pairs();
  bool try_moves(std::vector<Move> moves);
  void note_loads(std::span<const uint32_t> links, std::vector<double>& sorted) const;
  bool is_present(uint32_t flow) const { return flows_[flow].present == taken_[flow]; }

  const std::span<const double> capacities_;
  const std::span<const RoutedFlow> flows_;
  const RouteOptions options_;
  std::vector<double> loads_;
  std::vector<uint32_t> taken_;
  size_t tries_ = 0;
  std::vector<uint32_t> links_;  // scratch: those that moves concern
  std::vector<double> before_, after_;
};

// Both sorted from the greatest down.
bool sorted_are_less(const std::vector<double>& a, const std::vector<double>& b) {
  const double rounding = a.empty() ? 0 : kRounding * std::max(a.front(), b.front());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] < b[i] - rounding) return true;
    if (b[i] < a[i] - rounding) return false;
  }
  return false;
}

void Assignment::place(uint32_t flow, uint32_t route, double sign) {
  for (const uint32_t link : flows_[flow].routes[route]) loads_[link] += sign * flows_[flow].demand / capacities_[link];
}

void Assignment::note_loads(std::span<const uint32_t> links, std::vector<double>& sorted) const {
  sorted.clear();
  for (const uint32_t link : links) sorted.push_back(loads_[link]);
  std::ranges::sort(sorted, std::greater<>());
}

void Assignment::place_all() {
  std::vector<uint32_t> order;
  for (uint32_t flow = 0; flow < flows_.size(); ++flow) {
    CHECK(!flows_[flow].routes.empty()) << "flow " << flow << " has no route";
    if (flows_[flow].present) {
      taken_[flow] = *flows_[flow].present;
      place(flow, taken_[flow], 1);
    } else {
      order.push_back(flow);
    }
  }
  std::ranges::stable_sort(order, std::greater(), [&](uint32_t a) { return flows_[a].demand; });
  for (const uint32_t flow : order) {
    // Starting on the first route, it goes to each that is better.
    taken_[flow] = 0;
    place(flow, 0, 1);
    for (uint32_t route = 1; route < flows_[flow].routes.size(); ++route) try_moves({{.flow = flow, .to = route}});
  }
}

void Assignment::change(std::span<const Move> moves) {
  for (const Move& move : moves) {
    place(move.flow, taken_[move.flow], -1);
    taken_[move.flow] = move.to;
    place(move.flow, move.to, 1);
  }
}

// Whether the moves are worth it; else everything is as before.
bool Assignment::try_moves(std::vector<Move> moves) {
  ++tries_;
  links_.clear();
  bool leaves_present = false;
  for (const Move& move : moves) {
    for (const uint32_t route : {taken_[move.flow], move.to}) {
      const std::vector<uint32_t>& links = flows_[move.flow].routes[route];
      links_.insert(links_.end(), links.begin(), links.end());
    }
    leaves_present = leaves_present || is_present(move.flow);
  }
  std::ranges::sort(links_);
  links_.erase(std::unique(links_.begin(), links_.end()), links_.end());
  note_loads(links_, before_);
  std::vector<Move> back;
  for (const Move& move : moves) back.push_back({.flow = move.flow, .to = taken_[move.flow]});
  change(moves);
  note_loads(links_, after_);
  const bool is_worth_it =
      !leaves_present || (!before_.empty() && after_.front() < before_.front() * (1 - options_.least_gain));
  if (is_worth_it && sorted_are_less(after_, before_)) return true;
  change(back);
  return false;
}

bool Assignment::move_single_flows() {
  bool moved = false;
  for (uint32_t flow = 0; flow < flows_.size(); ++flow) {
    for (uint32_t route = 0; route < flows_[flow].routes.size(); ++route) {
      if (route != taken_[flow]) moved = try_moves({{.flow = flow, .to = route}}) || moved;
    }
  }
  return moved;
}

bool Assignment::move_pairs() {
  if (flows_.size() > kMostInPairs) return false;
  for (uint32_t a = 0; a < flows_.size(); ++a) {
    for (uint32_t b = a + 1; b < flows_.size(); ++b) {
      for (uint32_t to_a = 0; to_a < flows_[a].routes.size(); ++to_a) {
        for (uint32_t to_b = 0; to_b < flows_[b].routes.size(); ++to_b) {
          if (to_a == taken_[a] || to_b == taken_[b]) continue;
          if (try_moves({{.flow = a, .to = to_a}, {.flow = b, .to = to_b}})) return true;
        }
      }
    }
  }
  return false;
}

}  // namespace

bool are_less(std::vector<double> a, std::vector<double> b) {
  std::ranges::sort(a, std::greater<>());
  std::ranges::sort(b, std::greater<>());
  return sorted_are_less(a, b);
}

std::vector<uint32_t> assign_routes(std::span<const double> capacities, std::span<const RoutedFlow> flows,
                                    const RouteOptions& options) {
  return Assignment(capacities, flows, options).solve();
}

std::vector<double> route_loads(std::span<const double> capacities, std::span<const RoutedFlow> flows,
                                std::span<const uint32_t> taken) {
  std::vector<double> loads(capacities.size(), 0);
  for (size_t flow = 0; flow < flows.size(); ++flow) {
    for (const uint32_t link : flows[flow].routes[taken[flow]]) loads[link] += flows[flow].demand / capacities[link];
  }
  return loads;
}

}  // namespace banyan::plan
