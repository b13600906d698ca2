#include "banyan/testing/fluid_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace banyan::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double use_of(const OracleFlow& flow, uint32_t link) {
  for (const auto& [on, coefficient] : flow.hops) {
    if (on == link) return coefficient;
  }
  return 0;
}

}  // namespace

std::vector<double> fair_rates(const std::vector<double>& capacities, const std::vector<OracleFlow>& flows) {
  std::vector<double> rates(flows.size(), 0), left = capacities;
  std::set<int> priorities;
  for (const OracleFlow& flow : flows) priorities.insert(flow.priority);
  for (const int priority : priorities) {
    std::set<size_t> rising;
    for (size_t f = 0; f < flows.size(); ++f) {
      if (flows[f].priority == priority) rising.insert(f);
    }
    while (!rising.empty()) {
      // The lowest level at which a link fills, or a flow is at its cap.
      double level = kInfinity;
      std::set<size_t> stop;
      for (uint32_t link = 0; link < left.size(); ++link) {
        double demand = 0;
        std::set<size_t> here;
        for (const size_t f : rising) {
          const double use = use_of(flows[f], link);
          if (use == 0) continue;
          demand += use * flows[f].weight;
          here.insert(f);
        }
        if (here.empty()) continue;
        const double fills = std::max(0.0, left[link]) / demand;
        if (fills < level) level = fills, stop = here;
      }
      for (const size_t f : rising) {
        const double cap = flows[f].cap > 0 ? flows[f].cap / flows[f].weight : kInfinity;
        if (cap < level) level = cap, stop = {f};
      }
      for (const size_t f : stop) {
        rates[f] = level * flows[f].weight;
        for (const auto& [link, coefficient] : flows[f].hops) left[link] -= coefficient * rates[f];
        rising.erase(f);
      }
    }
  }
  return rates;
}

std::string why_not_fair(const std::vector<double>& capacities, const std::vector<OracleFlow>& flows,
                         const std::vector<double>& rates, double tolerance) {
  // Of flows up to a priority.
  const auto load = [&](uint32_t link, int priority) {
    double sum = 0;
    for (size_t f = 0; f < flows.size(); ++f) {
      if (flows[f].priority <= priority) sum += use_of(flows[f], link) * rates[f];
    }
    return sum;
  };
  for (uint32_t link = 0; link < capacities.size(); ++link) {
    const double all = load(link, std::numeric_limits<int>::max());
    if (all > capacities[link] * (1 + tolerance) + tolerance) {
      return "link " + std::to_string(link) + " carries " + std::to_string(all) + " of " +
             std::to_string(capacities[link]);
    }
  }
  for (size_t f = 0; f < flows.size(); ++f) {
    const OracleFlow& flow = flows[f];
    if (flow.cap > 0 && rates[f] > flow.cap * (1 + tolerance)) return "flow " + std::to_string(f) + " is above its cap";
    bool is_held = flow.cap > 0 && rates[f] >= flow.cap * (1 - tolerance);
    for (const auto& [link, coefficient] : flow.hops) {
      if (load(link, flow.priority) < capacities[link] * (1 - tolerance)) continue;
      bool is_highest = true;
      for (size_t g = 0; g < flows.size(); ++g) {
        if (flows[g].priority != flow.priority || use_of(flows[g], link) == 0) continue;
        is_highest &= rates[g] / flows[g].weight <= rates[f] / flow.weight * (1 + tolerance);
      }
      is_held |= is_highest;
    }
    if (!is_held) return "flow " + std::to_string(f) + " at " + std::to_string(rates[f]) + " is held back by nothing";
  }
  return {};
}

std::vector<double> ends(const std::vector<double>& capacities, const std::vector<OracleFlow>& flows) {
  std::vector<double> end(flows.size(), kInfinity), remaining(flows.size());
  std::set<size_t> waiting, moving;
  for (size_t f = 0; f < flows.size(); ++f) waiting.insert(f), remaining[f] = flows[f].bytes;
  double now = 0;
  while (!waiting.empty() || !moving.empty()) {
    std::vector<OracleFlow> active;
    std::vector<size_t> who(moving.begin(), moving.end());
    for (const size_t f : who) active.push_back(flows[f]);
    const std::vector<double> rates = fair_rates(capacities, active);
    double next = kInfinity;
    for (const size_t f : waiting) next = std::min(next, flows[f].start_seconds);
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < who.size(); ++i) {
      if (rates[i] <= 0) continue;
      const double ends_at = now + remaining[who[i]] / rates[i];
      if (ends_at < next) next = ends_at, first = i;
    }
    if (next == kInfinity) break;
    for (size_t i = 0; i < who.size(); ++i) remaining[who[i]] -= rates[i] * (next - now);
    now = next;
    if (first != SIZE_MAX) {
      end[who[first]] = now;
      moving.erase(who[first]);
    }
    for (auto f = waiting.begin(); f != waiting.end();) {
      if (flows[*f].start_seconds > now) {
        ++f;
        continue;
      }
      moving.insert(*f);
      f = waiting.erase(f);
    }
  }
  return end;
}

}  // namespace banyan::testing
