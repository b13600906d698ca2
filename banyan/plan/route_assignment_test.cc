#include "banyan/plan/route_assignment.h"

#include <cstdio>

#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

struct Example {
  std::vector<double> capacities;
  std::vector<RoutedFlow> flows;
};

std::vector<double> sorted_loads(const Example& example, const std::vector<uint32_t>& taken) {
  std::vector<double> loads = route_loads(example.capacities, example.flows, taken);
  std::sort(loads.begin(), loads.end(), std::greater<>());
  return loads;
}

double greatest_load(const Example& example, const std::vector<uint32_t>& taken) {
  return sorted_loads(example, taken).front();
}

std::vector<uint32_t> assigned(const Example& example, const RouteOptions& options = {}) {
  return assign_routes(example.capacities, example.flows, options);
}

// A crossing from one leaf to another over `spines`: spine s is the links 2 s (up) and 2 s + 1 (down).
RoutedFlow across(uint32_t spines, double demand) {
  RoutedFlow flow{.demand = demand, .routes = {}};
  for (uint32_t spine = 0; spine < spines; ++spine) flow.routes.push_back({2 * spine, 2 * spine + 1});
  return flow;
}

// Small, so that all assignments can be looked at; every other one of leaves and spines, the rest of any routes.
Example random_example(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  Example example;
  const uint32_t links = 4 + 2 * below(3);
  for (uint32_t link = 0; link < links; ++link) example.capacities.push_back(1 + below(4));
  const uint32_t flows = 2 + below(6);
  for (uint32_t i = 0; i < flows; ++i) {
    const double demand = 1 + below(9);
    if (seed % 2 == 0) {
      example.flows.push_back(across(links / 2, demand));
      continue;
    }
    RoutedFlow flow{.demand = demand, .routes = {}};
    for (uint32_t route = 0; route < 1 + below(3); ++route) {
      std::vector<uint32_t> way;
      for (uint32_t link = 0; link < links; ++link) {
        if (below(3) == 0) way.push_back(link);
      }
      flow.routes.push_back(way);
    }
    example.flows.push_back(flow);
  }
  return example;
}

// All assignments, one after the other.
std::vector<double> least_loads(const Example& example) {
  std::vector<uint32_t> taken(example.flows.size(), 0);
  std::vector<double> least = sorted_loads(example, taken);
  for (;;) {
    size_t flow = 0;
    while (flow < taken.size() && ++taken[flow] == example.flows[flow].routes.size()) taken[flow++] = 0;
    if (flow == taken.size()) return least;
    least = std::min(least, sorted_loads(example, taken));
  }
}

// FFA as MCCS describes it: flow by flow, the route whose worst link has the least demand beyond its capacity.
std::vector<uint32_t> ffa(const Example& example) {
  std::vector<double> placed(example.capacities.size(), 0);
  std::vector<uint32_t> taken;
  for (const RoutedFlow& flow : example.flows) {
    uint32_t best = 0;
    double least = 0;
    for (uint32_t route = 0; route < flow.routes.size(); ++route) {
      double excess = -1e9;
      for (const uint32_t link : flow.routes[route]) {
        excess = std::max(excess, placed[link] - example.capacities[link]);
      }
      if (route == 0 || excess < least) {
        best = route;
        least = excess;
      }
    }
    for (const uint32_t link : flow.routes[best]) placed[link] += flow.demand;
    taken.push_back(best);
  }
  return taken;
}

constexpr uint32_t kExamples = 600;

TEST(RouteAssignment, DividesEqualFlowsEvenlyOverEqualRoutes) {
  for (uint32_t spines = 1; spines <= 4; ++spines) {
    const Example example{.capacities = std::vector<double>(2 * spines, 10),
                          .flows = std::vector<RoutedFlow>(3 * spines, across(spines, 2))};
    for (const double load : sorted_loads(example, assigned(example))) EXPECT_DOUBLE_EQ(load, 0.6);
  }
}

TEST(RouteAssignment, PlacesByLoadWhereCapacitiesDiffer) {
  const Example example{.capacities = {100, 400},
                        .flows = {{.demand = 360, .routes = {{1}}}, {.demand = 60, .routes = {{0}, {1}}}}};
  EXPECT_EQ(assigned(example), (std::vector<uint32_t>{0, 0}));
  const Example fuller{
      .capacities = {100, 400},
      .flows = {
          {.demand = 50, .routes = {{0}}}, {.demand = 340, .routes = {{1}}}, {.demand = 60, .routes = {{0}, {1}}}}};
  EXPECT_EQ(assigned(fuller).back(), 1u) << "a load of 1.00 on the thick link, 1.10 on the thin one";
}

TEST(RouteAssignment, ComesNearTheBestOfAllAssignments) {
  double sum = 0, worst = 1, sum_of_ffa = 0, worst_of_ffa = 1;
  uint32_t best = 0, best_by_ffa = 0;
  for (uint32_t seed = 0; seed < kExamples; ++seed) {
    const Example example = random_example(seed);
    const double least = least_loads(example).front();
    if (least == 0) {
      EXPECT_EQ(greatest_load(example, assigned(example)), 0) << "seed " << seed;
      continue;
    }
    const double gap = greatest_load(example, assigned(example)) / least;
    const double gap_of_ffa = greatest_load(example, ffa(example)) / least;
    EXPECT_LE(gap, gap_of_ffa * (1 + 1e-9)) << "seed " << seed;
    sum += gap - 1;
    sum_of_ffa += gap_of_ffa - 1;
    worst = std::max(worst, gap);
    worst_of_ffa = std::max(worst_of_ffa, gap_of_ffa);
    best += gap < 1 + 1e-9;
    best_by_ffa += gap_of_ffa < 1 + 1e-9;
  }
  std::printf("greatest load over the least possible: mean %.4f, worst %.3f, best in %u of %u; FFA %.4f, %.3f, %u\n",
              1 + sum / kExamples, worst, best, kExamples, 1 + sum_of_ffa / kExamples, worst_of_ffa, best_by_ffa);
  EXPECT_LE(sum / kExamples, 0.01);
  EXPECT_LE(worst, 1.2);
}

TEST(RouteAssignment, LeavesNoFlowThatAnotherRouteWouldSuitBetter) {
  for (uint32_t seed = 0; seed < kExamples; ++seed) {
    const Example example = random_example(seed);
    const std::vector<uint32_t> taken = assigned(example);
    const std::vector<double> loads = sorted_loads(example, taken);
    for (size_t flow = 0; flow < taken.size(); ++flow) {
      std::vector<uint32_t> other = taken;
      for (uint32_t route = 0; route < example.flows[flow].routes.size(); ++route) {
        other[flow] = route;
        EXPECT_GE(greatest_load(example, other), loads.front() * (1 - 1e-9)) << "seed " << seed << ", flow " << flow;
      }
    }
  }
}

TEST(RouteAssignment, AnswersEqualQuestionsAlike) {
  for (uint32_t seed = 0; seed < kExamples; ++seed) {
    EXPECT_EQ(assigned(random_example(seed)), assigned(random_example(seed))) << "seed " << seed;
  }
}

TEST(RouteAssignment, AFlowThatComesOrGoesMovesOthersOnlyForMoreThanTheLeastGain) {
  uint32_t moved = 0, stayed = 0;
  for (uint32_t seed = 0; seed < kExamples; ++seed) {
    Example example = random_example(seed);
    const std::vector<uint32_t> taken = assigned(example);
    for (size_t flow = 0; flow < taken.size(); ++flow) example.flows[flow].present = taken[flow];
    EXPECT_EQ(assigned(example), taken) << "seed " << seed << ": nobody came";

    Example more = example;
    more.flows.push_back(random_example(seed).flows.front());
    more.flows.back().present.reset();
    const std::vector<uint32_t> with_more = assigned(more);
    std::vector<uint32_t> kept = taken;
    double kept_load = 1e300;  // had the newcomer chosen alone
    for (kept.push_back(0); kept.back() < more.flows.back().routes.size(); ++kept.back()) {
      kept_load = std::min(kept_load, greatest_load(more, kept));
    }
    EXPECT_LE(greatest_load(more, with_more), kept_load * (1 + 1e-9)) << "seed " << seed;
    for (size_t flow = 0; flow < taken.size(); ++flow) ++(with_more[flow] == taken[flow] ? stayed : moved);

    Example fewer = example;
    fewer.flows.erase(fewer.flows.begin());
    const std::vector<uint32_t> with_fewer = assigned(fewer);
    for (size_t flow = 0; flow < with_fewer.size(); ++flow) {
      ++(with_fewer[flow] == taken[flow + 1] ? stayed : moved);
    }
  }
  std::printf("flows that were there already: %u stayed, %u moved\n", stayed, moved);
  EXPECT_LE(moved, (stayed + moved) / 8);
}

}  // namespace
}  // namespace banyan::plan
