#include "banyan/plan/bound/balanced_links.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/plan/bound/cuts_witness.h"
#include "banyan/plan/bound/fixed_roots.h"
#include "banyan/plan/bound/fractions.h"
#include "banyan/plan/bound/narrowest_cut.h"
#include "banyan/plan/graph/switch_balance.h"

namespace banyan::plan {
namespace {

constexpr uint64_t kMostBalanceWork = 1'000'000'000;  // as in overlap.cc
constexpr uint32_t kBalancePatience = 3;
constexpr double kSameRate = 1e-9;
// Sums of rates times weights stay below this, so that cuts can be counted (narrowest_cut.cc).
constexpr double kMostRates = 0x1p58;
constexpr double kRoundedRates = 0x1p40;

bool has_power(const Network& network, const Fabric& fabric, bool gathering) {
  for (uint32_t v = network.terminal_count(); v < network.vertex_count(); ++v) {
    const Node& node = fabric.node(network.node_of(v));
    if (gathering ? node.reduce : node.multicast) return true;
  }
  return false;
}

// Whether bandwidth can be taken away until all switches are balanced and the cut is as narrow as before.
bool balances_at(const Network& network, const Collective& collective, const CutWitness& cut) {
  // At the cut's ratio p / q an arc carries p times its bandwidth, and each terminal supplies q times its weight.
  int64_t p = static_cast<int64_t>(cut.crossing_weight),
          q = static_cast<int64_t>(cut.bytes_per_second / network.unit());
  const int64_t common = std::gcd(p, q);
  std::vector<int64_t> capacity, supply;
  for (const int64_t bandwidth : network.bandwidths()) capacity.push_back(p / common * bandwidth);
  for (const uint64_t weight : collective.weights()) supply.push_back(q / common * static_cast<int64_t>(weight));
  return !balance_switches(network, capacity, supply);
}

// The greatest throughput, and rates for it as near as can be to the bandwidths. As in overlap.cc the two programs
// take turns.
class BalancedSearch {
 public:
  explicit BalancedSearch(const FixedRoots& question) : question_(question), program_(question) {
    const auto bandwidths = question.directions.front()->bandwidths();
    wish_.emplace_back(bandwidths.begin(), bandwidths.end());
  }

  // Nothing where it takes too much work.
  std::optional<std::vector<double>> rates() {
    try {
      return search();
    } catch (const WorkLeft::Exhausted&) {
      return std::nullopt;
    }
  }
  const FixedRootsProgram& program() const { return program_; }

 private:
  std::vector<double> search() {
    uint32_t stalled = 0, patience = kBalancePatience;
    for (double before = 0;;) {
      // The first program says how much; its throughput falls as it learns cuts.
      const bool is_done = program_.solve(work_) == CutProgram::Step::done;
      stalled = program_.throughput() >= before * (1 - kSameRate) ? stalled + 1 : 0;
      before = program_.throughput();
      if (!is_done && stalled < patience) continue;
      // The second asks for rates of that throughput which are as near as can be to all bandwidth.
      FixedRootsProgram near(question_, before, wish_);
      near.learn_cuts_of(program_);
      CutProgram::Step step = CutProgram::Step::violated;
      while (step == CutProgram::Step::violated) step = near.solve(work_);
      if (step == CutProgram::Step::done) return near.rates().front();
      if (is_done) return program_.rates().front();
      // It cannot be reached: the first goes on with the cuts that say so.
      program_.learn_cuts_of(near);
      stalled = 0;
      patience *= 2;
    }
  }

  const FixedRoots& question_;
  FixedRootsProgram program_;
  FixedRootsProgram::Rates wish_;
  WorkLeft work_{kMostBalanceWork};
};

CutsWitness witness_of(const CutProgram& program, const Network& network, bool gathering,
                       const std::vector<int64_t>& multipliers) {
  CutsWitness witness = program.witness_of(multipliers, network);
  for (CutsWitness::Cut& cut : witness.cuts) cut.gathering = gathering;
  for (CutsWitness::Potential& potential : witness.potentials) {
    potential.gathering = gathering;
    // What enters a switch leaves it where the network is turned round.
    if (gathering) potential.height = -potential.height;
  }
  return witness;
}

// The dual, rounded in the way that proves most.
CutsWitness best_witness(const CutProgram& program, const Network& network, const Fabric& fabric,
                         const Collective& collective, bool gathering) {
  const Network spread(fabric, collective, false);
  CutsWitness best;
  const auto offer = [&](const std::vector<int64_t>& multipliers) {
    CutsWitness witness = witness_of(program, network, gathering, multipliers);
    // The sums of the rounded dual are counted anew; the witness that proves most is kept.
    const auto proven = count_crossings(witness, fabric, spread, ArcClasses::alone(spread), collective.weights());
    if (!proven || !(best.bound < proven->seconds_per_byte())) return;
    witness.bound = proven->seconds_per_byte();
    best = std::move(witness);
  };
  const std::vector<double> multipliers = program.multipliers();
  if (const auto exact = as_fractions(multipliers)) offer(exact->values);
  offer(in_parts_of_the_largest(multipliers));
  return best;
}

// Whole rates within the links, balanced; how many make one unit of bandwidth.
struct WholeRates {
  std::vector<int64_t> rates;
  Fraction parts;
};

WholeRates rounded_down(const std::vector<double>& rates, const Network& network, double weight) {
  const double total = std::accumulate(rates.begin(), rates.end(), 0.0);
  // A power of two for parts, so that scaling is exact; what rounding down upset at switches is balanced again.
  const int scale = std::ilogb(kRoundedRates / total / weight);
  WholeRates result{.rates = {},
                    .parts = scale < 0 ? Fraction(1, int128{1} << -scale) : Fraction(int128{1} << scale, 1)};
  for (uint32_t a = 0; a < rates.size(); ++a) {
    const double within = std::clamp(rates[a], 0.0, static_cast<double>(network.bandwidths()[a]));
    result.rates.push_back(static_cast<int64_t>(std::ldexp(within, scale)));
  }
  const std::vector<int64_t> nothing(network.terminal_count(), 0);
  CHECK(!balance_switches(network, result.rates, nothing)) << "what is rounded down cannot be balanced";
  return result;
}

WholeRates whole_rates(const std::vector<double>& rates, const Network& network, double weight) {
  // Fractions stand only if they keep within the links, can be counted and are balanced; else they are rounded down.
  const auto exact = as_fractions(rates);
  if (!exact) return rounded_down(rates, network, weight);
  double total = 0;
  for (uint32_t a = 0; a < rates.size(); ++a) {
    const int64_t rate = exact->values[a];
    if (rate < 0 || rate > int128{network.bandwidths()[a]} * exact->denominator)
      return rounded_down(rates, network, weight);
    total += static_cast<double>(rate);
  }
  if (total * weight > kMostRates || !is_balanced(network, exact->values)) return rounded_down(rates, network, weight);
  return {.rates = exact->values, .parts = Fraction(exact->denominator)};
}

}  // namespace

std::optional<BalancedLinks> balance_links(const Fabric& fabric, const Collective& collective, const CutWitness& cut,
                                           PlanObserver* observer) {
  const Network network(fabric, collective, cut.gathering, observer);
  if (is_balanced(network, network.bandwidths()) || has_power(network, fabric, cut.gathering) ||
      balances_at(network, collective, cut))
    return std::nullopt;
  // 1. The rates of the best trees, by the program.
  const FixedRoots question{.directions = {&network},
                            .weights = {collective.weights().begin(), collective.weights().end()}};
  BalancedSearch search(question);
  const auto rates = search.rates();
  if (!rates) return std::nullopt;
  // 2. Whole rates. They are a network on which the narrowest cut can be reached.
  const WholeRates whole = whole_rates(*rates, network, static_cast<double>(collective.total_weight()));
  Network carried = network.with_bandwidths(whole.rates);
  CutWitness narrowest = narrowest_cut(carried, collective, cut.gathering);
  return BalancedLinks{.witness = best_witness(search.program().program(), network, fabric, collective, cut.gathering),
                       .network = std::move(carried),
                       .cut = std::move(narrowest),
                       .unit_bytes = Fraction(static_cast<int128>(network.unit()), 1) / whole.parts};
}

std::optional<std::vector<int64_t>> balance_by_program(const Network& network, const std::vector<int64_t>& capacity,
                                                       const std::vector<int64_t>& supply) {
  // The throughput is given, and the capacities are what is wished for: only the second program is needed.
  const Network within = network.with_bandwidths(capacity);
  const FixedRoots question{.directions = {&within}, .weights = supply};
  const double unit = static_cast<double>(within.unit());
  const double total = std::accumulate(supply.begin(), supply.end(), 0.0);
  // The program is asked for exactly the supply that is owed.
  FixedRootsProgram program(question, total / unit, {{within.bandwidths().begin(), within.bandwidths().end()}});
  WorkLeft work(kMostBalanceWork);
  try {
    CutProgram::Step step = CutProgram::Step::violated;
    while (step == CutProgram::Step::violated) step = program.solve(work);
    if (step == CutProgram::Step::infeasible) return std::nullopt;
  } catch (const WorkLeft::Exhausted&) {
    return std::nullopt;
  }
  const std::vector<double> rates = program.rates().front();
  std::vector<int64_t> result;
  size_t next = 0;
  for (const int64_t most : capacity) {
    result.push_back(most == 0 ? 0 : std::llround(rates[next++] * unit));
    if (result.back() < 0 || result.back() > most) return std::nullopt;
  }
  // The program's answer is floating point. It is taken only if the whole numbers hold exactly.
  if (!is_balanced(network, result) || CutCondition(network).find_violated({.capacity = result, .supply = supply}))
    return std::nullopt;
  return result;
}

}  // namespace banyan::plan
