// Rates are held against the definition of max-min fairness, by a checker that does not know how they came about.
#include "banyan/predict/fluid/max_min.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "banyan/testing/fluid_oracle.h"

namespace banyan {
namespace {

using testing::OracleFlow;

// A network that changes at random, and what the checker is to know of it.
class Changing {
 public:
  struct Traits {
    uint32_t links = 10, most_flows = 20, most_hops = 4;
    bool weights = false, caps = false, coefficients = false, priorities = false, multiplicities = false, equal = false;
  };
  Changing(uint64_t seed, const Traits& traits)
      : random_(seed), traits_(traits), capacities_(draw_capacities()), solver_(capacities_) {}

  void change() {
    const uint32_t what = draw(10);
    if (what == 0) {
      const uint32_t link = draw(traits_.links);
      capacities_[link] = draw(8) == 0 ? 0 : draw_capacity();
      solver_.set_capacity(link, capacities_[link]);
    } else if (what < 6 && flows_.size() < traits_.most_flows) {
      add();
    } else if (!flows_.empty()) {
      auto flow = flows_.begin();
      std::advance(flow, draw(static_cast<uint32_t>(flows_.size())));
      solver_.remove(flow->first);
      flows_.erase(flow);
    }
  }

  std::string why_not_fair() {
    solver_.solve();
    std::vector<OracleFlow> flows;
    std::vector<double> rates;
    for (const auto& [id, flow] : flows_) {
      for (uint32_t i = 0; i < flow.multiplicity; ++i) {
        flows.push_back(flow.flow);
        rates.push_back(solver_.rate(id));
      }
    }
    if (const std::string why = testing::why_not_fair(capacities_, flows, rates, 1e-9); !why.empty()) return why;
    for (uint32_t link = 0; link < traits_.links; ++link) {
      double used = 0;
      for (size_t f = 0; f < flows.size(); ++f) {
        for (const auto& [on, coefficient] : flows[f].hops) used += on == link ? coefficient * rates[f] : 0;
      }
      if (std::abs(used - solver_.used(link)) > 1e-9 * (1 + used)) return "use of link " + std::to_string(link);
    }
    return {};
  }

 private:
  struct Flow {
    OracleFlow flow;
    uint32_t multiplicity = 1;
  };

  uint32_t draw(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  double draw_capacity() { return traits_.equal ? 100 : 1 + draw(1000) / 7.0; }
  std::vector<double> draw_capacities() {
    std::vector<double> capacities(traits_.links);
    for (double& capacity : capacities) capacity = draw_capacity();
    return capacities;
  }

  void add() {
    Flow flow;
    std::vector<FluidHop> hops;
    for (uint32_t link = 0; link < traits_.links && hops.size() < traits_.most_hops; ++link) {
      if (draw(traits_.links) >= traits_.most_hops) continue;
      hops.push_back({link, traits_.coefficients ? 0.5 + draw(4) / 3.0 : 1.0});
    }
    if (hops.empty()) hops.push_back({draw(traits_.links), 1.0});
    for (const FluidHop& hop : hops) flow.flow.hops.emplace_back(hop.link, hop.coefficient);
    if (traits_.weights) flow.flow.weight = 1 + draw(5) / 2.0;
    if (traits_.caps && draw(2) == 0) flow.flow.cap = 1 + draw(40);
    if (traits_.priorities) flow.flow.priority = static_cast<int>(draw(3));
    if (traits_.multiplicities) flow.multiplicity = 1 + draw(3);
    uint32_t id = 0;
    while (flows_.count(id) != 0) ++id;
    solver_.add(id, {.hops = hops,
                     .weight = flow.flow.weight,
                     .cap = flow.flow.cap > 0 ? flow.flow.cap : MaxMin::kUnlimited,
                     .multiplicity = flow.multiplicity,
                     .priority = static_cast<uint8_t>(flow.flow.priority)});
    flows_[id] = flow;
  }

  std::mt19937_64 random_;
  const Traits traits_;
  std::vector<double> capacities_;
  MaxMin solver_;
  std::map<uint32_t, Flow> flows_;
};

struct Case {
  const char* name;
  Changing::Traits traits;
};
void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

class MaxMinOf : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Of, MaxMinOf,
    ::testing::Values(Case{"Plain", {}}, Case{"EqualLinks", {.equal = true}}, Case{"Weighted", {.weights = true}},
                      Case{"Capped", {.weights = true, .caps = true}}, Case{"Bundles", {.coefficients = true}},
                      Case{"Multiplied", {.weights = true, .caps = true, .multiplicities = true}},
                      Case{"Priorities", {.weights = true, .caps = true, .priorities = true, .multiplicities = true}},
                      Case{"Sparse", {.links = 60, .most_flows = 25, .most_hops = 3}},
                      Case{"Crowded", {.links = 4, .most_flows = 40, .most_hops = 3, .weights = true}}),
    [](const auto& test) { return test.param.name; });

TEST_P(MaxMinOf, IsFairAfterEveryChange) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Changing network(seed, GetParam().traits);
    for (int step = 0; step < 60; ++step) {
      network.change();
      if (step % 3 == 2) network.change();
      const std::string why = network.why_not_fair();
      ASSERT_EQ(why, "") << "seed " << seed << ", step " << step;
    }
  }
}

std::vector<FluidHop> on(std::initializer_list<uint32_t> links) {
  std::vector<FluidHop> hops;
  for (const uint32_t link : links) hops.push_back({link, 1});
  return hops;
}

TEST(MaxMin, SharesTheTextbookExample) {
  // Bertsekas, Gallager: Data Networks, figure 6.15 in numbers of our own: the long flow is held back where it is most
  // crowded, the others take what is left.
  MaxMin solver({12, 30, 9});
  solver.add(0, {.hops = on({0, 1, 2})});
  solver.add(1, {.hops = on({0})});
  solver.add(2, {.hops = on({1})});
  solver.add(3, {.hops = on({2})});
  solver.add(4, {.hops = on({2})});
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(0), 3);   // a third of 9
  EXPECT_DOUBLE_EQ(solver.rate(1), 9);   // 12 - 3
  EXPECT_DOUBLE_EQ(solver.rate(2), 27);  // 30 - 3
  EXPECT_DOUBLE_EQ(solver.rate(3), 3);
  EXPECT_TRUE(solver.is_busy(0));
}

TEST(MaxMin, LooksOnlyAtWhatCanChange) {
  // Two halves that share no link: what happens in one is no change in the other.
  MaxMin solver({10, 10, 10, 10});
  for (uint32_t flow = 0; flow < 8; ++flow) solver.add(flow, {.hops = on({flow % 2 * 2, flow % 2 * 2 + 1})});
  solver.solve();
  solver.remove(0);
  solver.solve();
  EXPECT_THAT(solver.changed(), ::testing::UnorderedElementsAre(2, 4, 6));
}

TEST(MaxMin, LeavesSlowerFlowsAloneWhenAQuickOneEnds) {
  MaxMin solver({3, 100});
  for (uint32_t flow = 0; flow < 3; ++flow) solver.add(flow, {.hops = on({0, 1})});  // 1 each
  for (uint32_t flow = 3; flow < 9; ++flow) solver.add(flow, {.hops = on({1})});     // 97 / 6 each
  solver.solve();
  solver.remove(8);
  solver.solve();
  EXPECT_THAT(solver.changed(), ::testing::UnorderedElementsAre(3, 4, 5, 6, 7));
  EXPECT_DOUBLE_EQ(solver.rate(3), 97.0 / 5);
}

TEST(MaxMin, ServesHigherPrioritiesAsIfOthersWereNotThere) {
  MaxMin solver({10});
  solver.add(0, {.hops = on({0}), .cap = 4, .priority = 0});
  solver.add(1, {.hops = on({0}), .priority = 1});
  solver.add(2, {.hops = on({0}), .priority = 2});
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(0), 4);
  EXPECT_DOUBLE_EQ(solver.rate(1), 6);
  EXPECT_DOUBLE_EQ(solver.rate(2), 0);
  solver.remove(1);
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(2), 6);
}

}  // namespace
}  // namespace banyan
