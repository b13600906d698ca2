#include "banyan/plan/flow/flow_paths.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "banyan/base/check.h"
#include "banyan/plan/flow/arc_lengths.h"

namespace banyan::plan {
namespace {

// Walks backwards from a target to the source.
class Peeler {
 public:
  Peeler(const Network& network, uint32_t source, std::vector<double> flow)
      : network_(network), source_(source), flow_(std::move(flow)), next_(network.vertex_count()) {}

  // The fewest arcs that carry `amount`; false when no way does.
  bool find_shortest(uint32_t target, double amount) {
    // Breadth first from the target backwards, over arcs that still carry the amount.
    reached_.assign(network_.vertex_count(), 0);
    queue_.assign(1, target);
    reached_[target] = 1;
    for (size_t i = 0; i < queue_.size() && !reached_[source_]; ++i) {
      for (const uint32_t a : network_.in_arcs(queue_[i])) {
        const uint32_t tail = network_.arcs()[a].tail;
        if (reached_[tail] || flow_[a] < amount) continue;
        reached_[tail] = 1;
        next_[tail] = a;
        queue_.push_back(tail);
      }
    }
    return reached_[source_];
  }

  // The most that one way can carry.
  double widest(uint32_t target) {
    std::vector<double> width(network_.vertex_count(), 0);
    std::vector<uint8_t> done(network_.vertex_count(), 0);
    // The vertex with the widest way to the target is settled next, as in Dijkstra's algorithm with the least arc in
    // place of a sum. O(vertices^2), which is only asked where no way carries all that is left.
    width[target] = HUGE_VAL;
    while (true) {
      uint32_t best = UINT32_MAX;
      for (uint32_t v = 0; v < width.size(); ++v) {
        if (!done[v] && width[v] > 0 && (best == UINT32_MAX || width[v] > width[best])) best = v;
      }
      if (best == UINT32_MAX) return 0;
      if (best == source_) return width[best];
      done[best] = 1;
      for (const uint32_t a : network_.in_arcs(best)) {
        double& known = width[network_.arcs()[a].tail];
        known = std::max(known, std::min(width[best], flow_[a]));
      }
    }
  }

  // What find_shortest() has found, taken out of the flow.
  std::vector<uint32_t> take(uint32_t target, double amount) {
    std::vector<uint32_t> arcs;
    for (uint32_t v = source_; v != target; v = network_.arcs()[next_[v]].head) arcs.push_back(next_[v]);
    for (const uint32_t a : arcs) flow_[a] = std::max(0.0, flow_[a] - amount);
    return arcs;
  }

 private:
  const Network& network_;
  const uint32_t source_;
  std::vector<double> flow_;
  std::vector<uint32_t> next_, queue_;  // by vertex: the arc towards the target
  std::vector<uint8_t> reached_;
};

// What a flow lacks at a target is spread over its paths, up to this part of the amount.
constexpr double kMostScaled = 1e-6;

// The targets that something is shipped to, by hops from the source: near ones go first, since what passes by them
// would otherwise take their short ways.
std::vector<uint32_t> targets_nearby(const Network& network, uint32_t source, std::span<const double> amounts) {
  std::vector<uint32_t> targets = network.reached_from({source});
  std::erase_if(targets, [&](uint32_t v) { return !network.is_terminal(v) || amounts[v] <= 0; });
  return targets;
}

}  // namespace

void take_apart(const Network& network, uint32_t source, std::vector<double> flow, std::span<const double> amounts,
                const FlowNoise& noise, RoughPaths& paths) {
  Peeler peeler(network, source, std::move(flow));
  std::optional<ShortestPaths> ways;  // by `lengths`
  for (const uint32_t target : targets_nearby(network, source, amounts)) {
    const size_t first = paths.size();
    const double least = noise.noise * amounts[target];
    double left = amounts[target];
    // The shortest path that carries all that is left, up to noise; without one, the shortest of those that carry most.
    while (left > least && amounts[target] > noise.least) {
      double amount = left;
      if (!peeler.find_shortest(target, left - least)) {
        amount = peeler.widest(target);
        if (amount <= least) break;
        CHECK(peeler.find_shortest(target, amount));
      }
      paths.add(source, target, amount, peeler.take(target, amount));
      left -= amount;
    }
    // With noise the flow may fall short of the demand.
    if (left == 0) continue;
    // If much is missing the rest takes the path that is shortest by the lengths.
    if (paths.size() == first || left > kMostScaled * amounts[target]) {
      CHECK(!noise.lengths.empty()) << "no flow to " << target << ", " << left << " of " << amounts[target];
      if (!ways) {
        ways.emplace(network);
        ways->search(noise.lengths, source);
      }
      paths.add(source, target, left, ways->path_to(target));
      continue;
    }
    // A little that is missing is spread over the paths found, so that they sum to the demand.
    const double scale = amounts[target] / (amounts[target] - left);
    for (size_t i = first; i < paths.size(); ++i) paths.set_amount(i, paths[i].amount * scale);
  }
}

namespace {

// Powers of two of what rounding may divide a unit of demand into.
constexpr int kMostHalvings = 20;
constexpr int64_t kMostSteps = 1024;
// How steeply the cost of a class grows with its load, as a power of 2.
constexpr int kSteepness = 6;

class Rounder {
 public:
  Rounder(const RoughPaths& paths, const Demand& demand, const FlowArcs& classes)
      : paths_(paths), demand_(demand), classes_(classes), unrounded_(classes.bandwidth.size(), 0) {
    for (size_t i = 0; i < paths.size(); ++i) place(paths[i].arcs, paths[i].amount, unrounded_);
    greatest_ = greatest(unrounded_);
  }

  // Loads with so many units to each of demand.
  double round(int64_t parts) {
    parts_ = parts;
    units_.assign(paths_.size(), 0);
    // Loads begin unrounded. Each pair that is rounded changes them for the next, so that errors are evened out.
    loads_ = unrounded_;
    for (size_t begin = 0, end = 0; begin < paths_.size(); begin = end) {
      while (end < paths_.size() && paths_[end].source == paths_[begin].source &&
             paths_[end].target == paths_[begin].target) {
        ++end;
      }
      round_pair(begin, end);
    }
    return greatest(loads_) / greatest_;
  }

  PathFlows flows() const {
    PathFlows flows;
    flows.units_per_demand = parts_;
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (units_[i] > 0) flows.add(paths_[i].source, paths_[i].target, units_[i], paths_[i].arcs);
    }
    return flows;
  }

 private:
  void place(std::span<const uint32_t> arcs, double amount, std::vector<double>& loads) const {
    for (const uint32_t a : arcs) loads[classes_.of[a]] += amount / classes_.bandwidth[classes_.of[a]];
  }
  static double greatest(const std::vector<double>& loads) { return *std::max_element(loads.begin(), loads.end()); }

  // What one more unit on a path costs: loads to a power.
  double cost(std::span<const uint32_t> arcs) const {
    double sum = 0;
    for (const uint32_t a : arcs) {
      double power = loads_[classes_.of[a]] / greatest_;
      for (int i = 0; i < kSteepness; ++i) power *= power;
      sum += power / classes_.bandwidth[classes_.of[a]];
    }
    return sum;
  }

  // Whole shares downwards, then what is left over, one unit after the other, to where it costs least.
  void round_pair(size_t begin, size_t end) {
    int64_t left = demand_.of(paths_[begin].source, paths_[begin].target) * parts_;
    const double unit = 1.0 / static_cast<double>(parts_);
    for (size_t i = begin; i < end; ++i) {
      units_[i] = std::min(left, static_cast<int64_t>(paths_[i].amount * static_cast<double>(parts_) * (1 + 1e-12)));
      left -= units_[i];
      place(paths_[i].arcs, static_cast<double>(units_[i]) * unit - paths_[i].amount, loads_);
    }
    while (left > 0) {
      size_t best = end;
      double least = 0;
      for (size_t i = begin; i < end; ++i) {
        const double more = cost(paths_[i].arcs);
        if (best < end && more >= least) continue;
        best = i;
        least = more;
      }
      // One by one; where doubles have lost many units of a large demand, by a part of them.
      const int64_t more = std::max<int64_t>(1, left / kMostSteps);
      units_[best] += more;
      left -= more;
      place(paths_[best].arcs, static_cast<double>(more) * unit, loads_);
    }
  }

  const RoughPaths& paths_;
  const Demand& demand_;
  const FlowArcs& classes_;
  std::vector<double> unrounded_, loads_;
  double greatest_ = 0;
  int64_t parts_ = 1;
  std::vector<int64_t> units_;
};

}  // namespace

PathFlows round_amounts(const RoughPaths& paths, const Demand& demand, const FlowArcs& classes, double loss) {
  Rounder rounder(paths, demand, classes);
  // All units together are counted in 62 bits; demand alone fits in them.
  const int most =
      std::clamp(61 - static_cast<int>(std::bit_width(static_cast<uint64_t>(demand.total()))), 0, kMostHalvings);
  // As few shares as will do: a unit of demand is cut into one, two, four and so on until the load is near enough.
  for (int halvings = 0; halvings < most; ++halvings) {
    if (rounder.round(int64_t{1} << halvings) <= 1 + loss) return rounder.flows();
  }
  rounder.round(int64_t{1} << most);
  return rounder.flows();
}

}  // namespace banyan::plan
