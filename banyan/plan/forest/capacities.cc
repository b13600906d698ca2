#include "banyan/plan/forest/capacities.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "banyan/base/error.h"
#include "banyan/plan/bound/balanced_links.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/switch_balance.h"

namespace banyan::plan {
namespace {

// Larger numbers of trees are only tried up to here below the number that is certain to work.
constexpr int64_t kMaxTriedMultiples = 64;
// Times beyond the least that some number of trees is tried in, until switches can be balanced.
constexpr int kMaxTriedTimes = 256;
constexpr int128 kMaxTotal = int128{1} << 61;

// 1/x* = p/q in network units.
struct InverseThroughput {
  int64_t p, q;
};

InverseThroughput inverse_throughput(const TreeQuestion& question) {
  const int64_t p = static_cast<int64_t>(question.witness.crossing_weight),
                q = static_cast<int64_t>(question.witness.bytes_per_second / question.network.unit());
  const int64_t common = std::gcd(p, q);
  return {p / common, q / common};
}

std::vector<int64_t> floors(const Network& network, const Fraction& time, int64_t demand) {
  // More than a few times the whole demand is never used; the cap keeps sums countable.
  const int128 most = std::max<int128>(demand, std::min(int128{demand} * (network.terminal_count() + int64_t{1}),
                                                        kMaxTotal / static_cast<int128>(network.arcs().size())));
  std::vector<int64_t> capacity;
  for (const int64_t bandwidth : network.bandwidths()) {
    const Fraction exact = time * Fraction(bandwidth, 1);
    capacity.push_back(static_cast<int64_t>(std::min(exact.numerator() / exact.denominator(), most)));
  }
  return capacity;
}

[[noreturn]] void refuse_unbalanced(const TreeQuestion& question, uint32_t v) {
  const Network& network = question.network;
  uint64_t in = 0, out = 0;
  for (const uint32_t a : network.in_arcs(v)) in += static_cast<uint64_t>(network.bandwidths()[a]) * network.unit();
  for (const uint32_t a : network.out_arcs(v)) out += static_cast<uint64_t>(network.bandwidths()[a]) * network.unit();
  throw Error(ErrorCode::unsupported, "switch '" + question.fabric.name(network.node_of(v)) + "' takes in " +
                                          Bandwidth::bytes_per_second(in).to_string() + " but gives out " +
                                          Bandwidth::bytes_per_second(out).to_string() +
                                          ", and both are needed; trees that reach the bound need not exist then. Give "
                                          "its links equal bandwidth in both directions");
}

// A switch that stays unbalanced, or nothing.
std::optional<uint32_t> balance(TreeCapacities& result, const Network& network) {
  std::vector<int64_t> capacity = result.capacity;
  if (const auto unbalanced = balance_switches(network, capacity, result.supply)) {
    auto found = balance_by_program(network, result.capacity, result.supply);
    if (!found) return unbalanced;
    capacity = std::move(*found);
  }
  result.capacity = std::move(capacity);
  return std::nullopt;
}

TreeCapacities floored(const Fraction& time, int64_t trees_per_weight, const Network& network,
                       const Collective& collective) {
  return {.trees_per_weight = trees_per_weight,
          .capacity = floors(network, time, trees_per_weight * static_cast<int64_t>(collective.total_weight())),
          .supply = supplies(trees_per_weight, collective)};
}

// The next time in which some arc carries one more.
Fraction next_step(const Fraction& time, const Network& network) {
  std::optional<Fraction> next;
  for (const int64_t bandwidth : network.bandwidths()) {
    const Fraction carried = time * Fraction(bandwidth);
    const Fraction step(carried.numerator() / carried.denominator() + 1, bandwidth);
    if (!next || step < *next) next = step;
  }
  return *next;
}

// A time that suffices: one more unit on the narrowest arc is at least one more on each, which makes up for every
// floor.
Fraction sure_time(int64_t trees_per_weight, const TreeQuestion& question) {
  const Network& network = question.network;
  const auto [p, q] = inverse_throughput(question);
  const int64_t narrowest = *std::min_element(network.bandwidths().begin(), network.bandwidths().end());
  const Fraction ideal = Fraction(int128{p} * trees_per_weight, q) * Fraction(narrowest, 1);
  const int128 above = ideal.numerator() / ideal.denominator() + 2;
  return Fraction(above, narrowest);
}

bool is_feasible(const Network& network, const std::vector<int64_t>& capacity, const std::vector<int64_t>& supply) {
  return !CutCondition(network).find_violated({.capacity = capacity, .supply = supply});
}

// The number of trees for which every arc across the witness cut has a whole capacity.
int64_t trees_for_tight_arcs(const Network& network, const CutWitness& witness, int64_t q) {
  std::set<uint32_t> inside;
  for (const NodeId id : witness.inside) inside.insert(index(id));
  int64_t common = q;
  for (uint32_t a = 0; a < network.arcs().size(); ++a) {
    const Arc& arc = network.arcs()[a];
    const bool leaves =
        inside.contains(index(network.node_of(arc.tail))) && !inside.contains(index(network.node_of(arc.head)));
    if (leaves) common = std::gcd(common, network.bandwidths()[a]);
  }
  return q / common;
}

// Feasible if `time` is at least what capacities_for found.
TreeCapacities capacities_at(const Fraction& time, int64_t trees_per_weight, const TreeQuestion& question) {
  TreeCapacities result = floored(time, trees_per_weight, question.network, question.collective);
  if (const auto unbalanced = balance(result, question.network)) refuse_unbalanced(question, *unbalanced);
  return result;
}

}  // namespace

std::vector<int64_t> supplies(int64_t trees_per_weight, const Collective& collective) {
  std::vector<int64_t> supply;
  for (const uint64_t weight : collective.weights()) supply.push_back(trees_per_weight * static_cast<int64_t>(weight));
  return supply;
}

bool is_countable(int128 trees_per_weight, const Network& network, const Collective& collective) {
  // No sum over arcs counts an arc for more than all trees (floors above).
  return trees_per_weight <=
         kMaxTotal / static_cast<int128>(collective.total_weight()) / static_cast<int128>(network.arcs().size());
}

// With k trees in the optimal time U = k p / q, an arc across the witness cut must carry exactly U * b_e trees, so k is
// a multiple of `step`; with k = `certain` every arc does (ForestColl, section 5.1). In between the cut condition
// decides, so the multiples are tried from below, up to a limit.
TreeCapacities optimal_capacities(const TreeQuestion& question) {
  const Network& network = question.network;
  const Collective& collective = question.collective;
  const auto [p, q] = inverse_throughput(question);
  int64_t common = q;
  for (const int64_t bandwidth : network.bandwidths()) common = std::gcd(common, bandwidth);
  const int64_t certain = q / common, step = trees_for_tight_arcs(network, question.witness, q);
  // Below `certain` floors may leave a cut short; the cut condition tells which multiples will do all the same.
  for (int64_t trees = step, tried = 0; trees < certain && tried < kMaxTriedMultiples; trees += step, ++tried) {
    if (!is_countable(trees, network, collective)) break;
    TreeCapacities result{.trees_per_weight = trees, .capacity = {}, .supply = supplies(trees, collective)};
    const int64_t demand = trees * static_cast<int64_t>(collective.total_weight());
    result.capacity = floors(network, Fraction(int128{p} * trees, q), demand);
    if (!is_feasible(network, result.capacity, result.supply)) continue;
    if (!balance_switches(network, result.capacity, result.supply)) return result;
  }
  if (is_countable(certain, network, collective))
    return capacities_at(Fraction(int128{p} * certain, q), certain, question);
  // Not countable: the largest power of two that is, rounded.
  int64_t most = 1;
  while (is_countable(int128{2} * most, network, collective)) most *= 2;
  return rounded_capacities(most, question);
}

TreeCapacities rounded_capacities(int64_t trees_per_weight, const TreeQuestion& question) {
  TreeCapacities result = capacities_at(sure_time(trees_per_weight, question), trees_per_weight, question);
  result.exact = false;
  return result;
}

std::optional<TreeCapacities> find_capacities_at(const Fraction& time, int64_t trees_per_weight,
                                                 const TreeQuestion& question) {
  const Network& network = question.network;
  TreeCapacities result = floored(time, trees_per_weight, network, question.collective);
  if (!is_feasible(network, result.capacity, result.supply) || balance(result, network)) return std::nullopt;
  return result;
}

std::optional<TreeCapacities> few_balanced_trees(const Fraction& seconds_per_byte, const Network& network,
                                                 const Collective& collective) {
  // Of one tree for each unit of weight.
  const Fraction time = seconds_per_byte * Fraction(static_cast<int128>(collective.total_weight()), 1) *
                        Fraction(static_cast<int128>(network.unit()), 1);
  for (int64_t trees = 1; trees <= kMaxTriedMultiples && is_countable(trees, network, collective); ++trees) {
    TreeCapacities result = floored(time * Fraction(trees), trees, network, collective);
    if (!is_feasible(network, result.capacity, result.supply)) continue;
    auto balanced = balance_by_program(network, result.capacity, result.supply);
    if (!balanced) continue;
    result.capacity = std::move(*balanced);
    return result;
  }
  return std::nullopt;
}

// Feasibility changes only where some floor(U * b_e) does, at U = j / b_e, and grows with U. So for each bandwidth the
// least feasible j is found by halving, below the best time so far; a bandwidth that cannot beat it costs one check.
Fraction least_time(int64_t trees_per_weight, const TreeQuestion& question) {
  const Network& network = question.network;
  const Collective& collective = question.collective;
  const auto [p, q] = inverse_throughput(question);
  const Fraction ideal(int128{p} * trees_per_weight, q);
  if (!is_countable(trees_per_weight, network, collective)) {
    throw Error(ErrorCode::unsupported, std::to_string(trees_per_weight) +
                                            " trees per unit of weight cannot be counted in 64 bits here; ask for "
                                            "fewer with --trees, or use smaller weights");
  }
  const std::vector<int64_t> supply = supplies(trees_per_weight, collective);
  const int64_t demand = trees_per_weight * static_cast<int64_t>(collective.total_weight());
  const auto feasible = [&](const Fraction& time) {
    return is_feasible(network, floors(network, time, demand), supply);
  };
  const std::set<int64_t> distinct(network.bandwidths().begin(), network.bandwidths().end());
  // With U = demand / narrowest every arc carries everything.
  Fraction best(demand, *distinct.begin());
  for (const int64_t bandwidth : distinct) {
    // The largest j with j / bandwidth < best; j is skipped when even that fails.
    const Fraction limit = best * Fraction(bandwidth, 1);
    int128 high = (limit.numerator() - 1) / limit.denominator();
    if (high < 1 || !feasible(Fraction(high, bandwidth))) continue;
    const Fraction floor_j = ideal * Fraction(bandwidth, 1);
    int128 low =
        (floor_j.numerator() + floor_j.denominator() - 1) / floor_j.denominator() - 1;  // below the ideal: infeasible
    while (high - low > 1) {
      const int128 middle = low + (high - low) / 2;
      (feasible(Fraction(middle, bandwidth)) ? high : low) = middle;
    }
    best = Fraction(high, bandwidth);
  }
  return best;
}

TreeCapacities capacities_for(int64_t trees_per_weight, const TreeQuestion& question) {
  // From the least time on, times in which some arc carries one more are tried, until switches can be balanced: up to
  // kMaxTriedTimes of them, and none beyond the sure time, which is taken where all fail.
  const Fraction sure = sure_time(trees_per_weight, question);
  Fraction time = least_time(trees_per_weight, question);
  for (int tried = 0; tried < kMaxTriedTimes && time < sure; ++tried) {
    if (auto found = find_capacities_at(time, trees_per_weight, question)) return std::move(*found);
    time = next_step(time, question.network);
  }
  return capacities_at(std::max(time, sure), trees_per_weight, question);
}

}  // namespace banyan::plan
