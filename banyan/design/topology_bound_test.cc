#include "banyan/design/topology_bound.h"

#include "banyan/design/test_topologies.h"
#include "banyan/plan/lp/linear_program.h"
#include "banyan/testing/test.h"

namespace banyan::design {
namespace {

// The least worst load of a topology with the best of all routings, by a program of flows: a flow for each source, in
// each link.
double best_routing(const DemandMatrix& demand, const std::vector<uint32_t>& links) {
  const size_t n = demand.size();
  plan::LinearProgram program;
  std::vector<std::vector<int>> flow(n, std::vector<int>(n * n, -1));
  const int worst = program.add_column(1);
  for (size_t source = 0; source < n; ++source) {
    for (size_t e = 0; e < n * n; ++e) {
      if (links[e] > 0) flow[source][e] = program.add_column(0);
    }
  }
  for (size_t source = 0; source < n; ++source) {
    for (size_t v = 0; v < n; ++v) {
      if (v == source) continue;
      std::vector<plan::LinearProgram::Term> kept;
      for (size_t u = 0; u < n; ++u) {
        if (flow[source][u * n + v] >= 0) kept.push_back({flow[source][u * n + v], 1});
        if (flow[source][v * n + u] >= 0) kept.push_back({flow[source][v * n + u], -1});
      }
      const double amount = static_cast<double>(demand.at(source, v));
      if (kept.empty() && amount > 0) return 1e300;
      program.add_row(kept, amount, amount);
    }
  }
  for (size_t e = 0; e < n * n; ++e) {
    if (links[e] == 0) continue;
    std::vector<plan::LinearProgram::Term> load{{worst, -static_cast<double>(links[e])}};
    for (size_t source = 0; source < n; ++source) load.push_back({flow[source][e], 1});
    program.add_row(load, -plan::LinearProgram::kInfinity, 0);
  }
  try {
    return program.solve().value;
  } catch (const Error&) {
    return 1e300;  // some traffic has no way
  }
}

TEST(TopologyBound, IsBeatenByNoTopologyWithAnyRouting) {
  double closest = 0;
  int judged = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    std::mt19937_64 random(seed);
    const Ports ports{.endpoints = 3 + random() % 2,
                      .each = 1 + static_cast<uint32_t>(random() % 3),
                      .wiring = seed % 2 == 0 ? Wiring::cables : Wiring::circuits};
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << ports.endpoints << " endpoints, " << ports.each
                                      << " ports");
    const DemandSet demands{.matrices = {random_demand(random, ports.endpoints)}, .uncertainty = Fraction(0)};
    const double bound = bound_topology(demands, kUnit, ports).least.to_double();
    double least = 1e300;
    for_all_topologies(ports, true, [&](const std::vector<uint32_t>& links) {
      least = std::min(least, best_routing(demands.matrices[0], links));
    });
    EXPECT_LE(bound, least * (1 + 1e-9));
    if (least == 1e300) continue;
    closest += bound / least;
    ++judged;
  }
  EXPECT_GT(closest / judged, 0.9);  // the bound is near what is possible, on average
}

// Four ports each, and traffic for four neighbours that fits: no load below 1 is possible, and the bound says so.
TEST(TopologyBound, IsReachedWhereAllTrafficFitsDirectly) {
  const Ports ports{.endpoints = 8, .each = 4, .wiring = Wiring::circuits};
  std::string csv;
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j < 8; ++j) csv += std::string(j > 0 ? "," : "") + ((j + 8 - i) % 8 % 2 == 1 ? "50" : "0");
    csv += "\n";
  }
  const DemandSet demands{.matrices = {parse_demand_csv(csv, "d.csv")}, .uncertainty = Fraction(0)};
  EXPECT_EQ(bound_topology(demands, Bandwidth::bytes_per_second(50), ports).least, Fraction(1));
}

// One port each, traffic for seven others: what does not go direct takes the place of other traffic at least once more.
TEST(TopologyBound, CountsHopsThatFewPortsForce) {
  const Ports ports{.endpoints = 8, .each = 1, .wiring = Wiring::circuits};
  DemandSet demands{.matrices = {parse_demand_csv("0,1,1,1,1,1,1,1\n1,0,1,1,1,1,1,1\n1,1,0,1,1,1,1,1\n1,1,1,0,1,1,1,1\n"
                                                  "1,1,1,1,0,1,1,1\n1,1,1,1,1,0,1,1\n1,1,1,1,1,1,0,1\n1,1,1,1,1,1,1,0",
                                                  "d.csv")},
                    .uncertainty = Fraction(0)};
  // A ring is all that joins them: a link carries 1 + 2 + .. + 7.
  EXPECT_NEAR(bound_topology(demands, kUnit, ports).least.to_double(), 28, 28.0 / 4096);
}

TEST(TopologyBound, OfSeveralMatricesIsTheLargest) {
  const Ports ports{.endpoints = 3, .each = 2, .wiring = Wiring::cables};
  const DemandMatrix low = parse_demand_csv("0,4,4\n4,0,4\n4,4,0", "a.csv"),
                     high = parse_demand_csv("0,6,6\n6,0,6\n6,6,0", "b.csv");
  for (const auto& matrices : {std::vector<DemandMatrix>{low, high}, {high, low}}) {
    EXPECT_EQ(bound_topology({.matrices = matrices, .uncertainty = Fraction(0)}, kUnit, ports).least, Fraction(6));
  }
}

TEST(BestDirectTopology, IsTheBestOfAll) {
  size_t impossible = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Ports ports{.endpoints = 2 + random() % 3,
                      .each = 1 + static_cast<uint32_t>(random() % 4),
                      .wiring = seed % 2 == 0 ? Wiring::cables : Wiring::circuits};
    const size_t n = ports.endpoints;
    DemandSet demands{.matrices = {random_demand(random, n)}, .uncertainty = Fraction(0)};
    for (uint64_t& amount : demands.matrices[0].amounts) amount *= random() % 3 > 0;
    demands.matrices[0].amounts[1] = 77;
    if (seed % 3 == 0) demands.uncertainty = Fraction(1, 2);
    const std::vector<uint64_t> most = demands.most(demands.matrices[0]);
    std::optional<Fraction> least;
    for_all_topologies(ports, false, [&](const std::vector<uint32_t>& links) {
      Fraction worst(0);
      for (size_t e = 0; e < n * n; ++e) {
        if (most[e] == 0) continue;
        if (links[e] == 0) return;
        worst = std::max(worst, Fraction(static_cast<int64_t>(most[e]), links[e]));
      }
      if (!least || worst < *least) least = worst;
    });
    if (!least) {
      ++impossible;
      EXPECT_THAT(testing::error_of([&] { best_direct_topology(demands, kUnit, ports); }), HasSubstr("allow two hops"));
      continue;
    }
    const DirectTopology best = best_direct_topology(demands, kUnit, ports);
    EXPECT_EQ(best.worst, *least);
    Fraction worst(0);
    for (size_t e = 0; e < n * n; ++e) {
      if (most[e] > 0) worst = std::max(worst, Fraction(static_cast<int64_t>(most[e]), best.links[e]));
    }
    EXPECT_EQ(worst, best.worst);
  }
  EXPECT_GT(impossible, 0u);
  EXPECT_LT(impossible, 60u);
}

TEST(BestDirectTopology, NamesTheEndpointWithTooManyPartners) {
  const DemandSet demands{.matrices = {parse_demand_csv(",a,b,c\na,0,1,0\nb,1,0,1\nc,0,0,0", "d.csv")},
                          .uncertainty = Fraction(0)};
  EXPECT_EQ(testing::error_of(
                [&] { best_direct_topology(demands, kUnit, {.endpoints = 3, .each = 1, .wiring = Wiring::cables}); }),
            "b has 2 partners of demand but only 1 port; allow two hops, or give it more ports");
}

}  // namespace
}  // namespace banyan::design
