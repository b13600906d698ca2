// Rates are held against the definition of max-min fairness, by a checker that does not know how they came about.

#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/testing/fluid_oracle.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using testing::OracleFlow;

// A network that changes at random, and what the checker is to know of it.
class Changing {
 public:
  struct Traits {
    uint32_t links = 10, most_flows = 20, most_hops = 4;
    bool weights = false, caps = false, coefficients = false, priorities = false, multiplicities = false, equal = false;
    int changes = 60;
  };
  Changing(uint64_t seed, const Traits& traits)
      : random_(seed), traits_(traits), capacities_(draw_capacities()), network_(capacities_, {}) {}

  void change() {
    const uint32_t what = draw(10);
    if (what == 0) {
      const uint32_t link = draw(traits_.links);
      capacities_[link] = draw(8) == 0 ? 0 : draw_capacity();
      network_.set_capacity(link, capacities_[link]);
    } else if (what < 6 && flows_.size() < traits_.most_flows) {
      add();
    } else if (!flows_.empty()) {
      auto flow = flows_.begin();
      std::advance(flow, draw(static_cast<uint32_t>(flows_.size())));
      network_.stop(flow->first);
      flows_.erase(flow);
    }
  }

  std::string why_not_fair() {
    std::vector<OracleFlow> flows;
    std::vector<double> rates;
    for (const auto& [id, flow] : flows_) {
      for (uint32_t i = 0; i < flow.multiplicity; ++i) {
        flows.push_back(flow.flow);
        rates.push_back(network_.rate(id));
      }
    }
    if (const std::string why = testing::why_not_fair(capacities_, flows, rates, 1e-9); !why.empty()) return why;
    for (uint32_t link = 0; link < traits_.links; ++link) {
      double used = 0;
      for (size_t f = 0; f < flows.size(); ++f) {
        for (const auto& [on, coefficient] : flows[f].hops) used += on == link ? coefficient * rates[f] : 0;
      }
      if (std::abs(used - network_.used(link)) > 1e-9 * (1 + used)) return "use of link " + std::to_string(link);
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
    const FlowId id = network_.start({.hops = hops,
                                      .bytes = 1e12,
                                      .weight = flow.flow.weight,
                                      .cap = Bandwidth::bytes_per_second(static_cast<uint64_t>(flow.flow.cap)),
                                      .multiplicity = flow.multiplicity,
                                      .priority = static_cast<uint8_t>(flow.flow.priority)});
    flows_[id] = flow;
  }

  std::mt19937_64 random_;
  const Traits traits_;
  std::vector<double> capacities_;
  FluidNetwork network_;
  std::map<FlowId, Flow> flows_;
};

struct Case {
  const char* name;
  Changing::Traits traits;
};
void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

class Rates : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Of, Rates,
    ::testing::Values(Case{"Plain", {}}, Case{"EqualLinks", {.equal = true}}, Case{"Weighted", {.weights = true}},
                      Case{"Capped", {.weights = true, .caps = true}}, Case{"Bundles", {.coefficients = true}},
                      Case{"Multiplied", {.weights = true, .caps = true, .multiplicities = true}},
                      Case{"Priorities", {.weights = true, .caps = true, .priorities = true, .multiplicities = true}},
                      Case{"Sparse", {.links = 60, .most_flows = 25, .most_hops = 3}},
                      Case{"Crowded", {.links = 4, .most_flows = 40, .most_hops = 3, .weights = true}},
                      Case{"Large", {.links = 40, .most_flows = 150, .most_hops = 5, .changes = 400}},
                      Case{"LargeAndEqual",
                           {.links = 40, .most_flows = 150, .most_hops = 5, .equal = true, .changes = 400}},
                      Case{"LargeWithAll",
                           {.links = 30,
                            .most_flows = 120,
                            .most_hops = 5,
                            .weights = true,
                            .caps = true,
                            .coefficients = true,
                            .priorities = true,
                            .multiplicities = true,
                            .changes = 300}}),
    [](const auto& test) { return test.param.name; });

TEST_P(Rates, AreFairAfterEveryChange) {
  const int changes = GetParam().traits.changes;
  for (uint64_t seed = 1; seed <= (changes > 60 ? 25 : 400); ++seed) {
    Changing network(seed, GetParam().traits);
    for (int step = 0; step < changes; ++step) {
      network.change();
      // Now and then many changes at once.
      for (uint64_t more = step % 3 == 2 ? seed % 12 : 0; more > 0; --more) network.change();
      const std::string why = network.why_not_fair();
      ASSERT_EQ(why, "") << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace banyan::predict
