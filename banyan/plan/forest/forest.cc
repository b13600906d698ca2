#include "banyan/plan/forest/forest.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/plan/bound/balanced_links.h"
#include "banyan/plan/bound/narrowest_cut.h"
#include "banyan/plan/bound/overlap.h"
#include "banyan/plan/forest/breadth_first.h"
#include "banyan/plan/forest/capacities.h"
#include "banyan/plan/forest/one_root.h"
#include "banyan/plan/forest/packing.h"
#include "banyan/plan/forest/priced_trees.h"
#include "banyan/plan/forest/rotation.h"
#include "banyan/plan/forest/shortest_paths.h"
#include "banyan/plan/forest/switch_nodes.h"
#include "banyan/plan/forest/tree_schedule.h"
#include "banyan/plan/forest/tree_source.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"
#include "banyan/plan/graph/switch_balance.h"
#include "banyan/schedule/cost.h"

namespace banyan::plan {
namespace {

// The search for the least time under a height: in these parts of the optimal time, and so many halvings at the end.
constexpr int64_t kTimeParts = 256;
constexpr int kNarrowingSteps = 3;

// Trees, and into how many parts each unit of capacity and supply was cut for them.
struct Trees {
  std::unique_ptr<TreeSource> source;
  int64_t parts = 1;
};

void begin(const ForestOptions& options, PlanObserver::Phase phase) {
  if (options.observer) options.observer->phase_begins(phase);
}

PackingOptions packing_options(const ForestOptions& options) {
  PackingOptions result{.max_height = options.max_height, .lower = options.lower};
  if (!options.observer) return result;
  result.progress = [&options](double done) { options.observer->progress(done); };
  result.lowering_begins = [&options] { begin(options, PlanObserver::Phase::lowering); };
  return result;
}

// Trees for given capacities, or null when the height does not allow it: the two guesses that cost little, taken only
// if they come out low, then the search that cannot fail. Trees along shortest paths are as low as any. Switches that
// trees need not span are left out of them.
std::unique_ptr<TreeSource> pack(const Network& network, const Fabric& fabric, const TreeCapacities& capacities,
                                 const ForestOptions& options) {
  const bool spans_switches = network.terminal_count() > network.participant_count();
  if (auto trees =
          spans_switches ? nullptr : pack_along_shortest_paths(network, capacities.capacity, capacities.supply);
      trees && trees->height() <= options.max_height.value_or(UINT32_MAX))
    return trees;
  if (auto trees = pack_by_rotation(network, fabric, capacities.capacity, capacities.supply, options.max_height))
    return trees;
  auto packing = pack_trees(network, capacities.capacity, capacities.supply, packing_options(options));
  if (packing && spans_switches) packing = without_idle_switches(network, *packing);
  return packing ? hand_over(std::move(*packing)) : nullptr;
}

// The same where one participant roots all trees: these are planned together if they can be.
std::optional<OneRootPacking> pack_rooted(const Network& network, const Fabric& fabric,
                                          const TreeCapacities& capacities, const ForestOptions& options) {
  const auto owes = [](int64_t units) { return units > 0; };
  if (std::ranges::count_if(capacities.supply, owes) != 1) return std::nullopt;
  const auto root = std::ranges::find_if(capacities.supply, owes);
  // No arc has a capacity of more than all trees once for each terminal (capacities.cc), and sums over arcs are
  // counted in 64 bits.
  const int64_t countable =
      (int64_t{1} << 61) / (network.terminal_count() + int64_t{1}) / static_cast<int64_t>(network.arcs().size());
  begin(options, PlanObserver::Phase::one_root);
  return pack_one_root({.network = network,
                        .fabric = fabric,
                        .capacity = capacities.capacity,
                        .root = static_cast<uint32_t>(root - capacities.supply.begin()),
                        .supply = *root,
                        .most_units = options.trees ? *root : countable,
                        .max_height = options.max_height,
                        .progress = packing_options(options).progress});
}

// Without a source when the height does not allow it.
Trees pack_any(const Network& network, const Fabric& fabric, const TreeCapacities& capacities,
               const ForestOptions& options) {
  if (auto rooted = pack_rooted(network, fabric, capacities, options))
    return {.source = hand_over(std::move(rooted->packing)), .parts = rooted->parts};
  begin(options, PlanObserver::Phase::packing);
  return {.source = pack(network, fabric, capacities, options)};
}

uint32_t least_height_of_roots(const Network& network, const Collective& collective) {
  uint32_t least = 0;
  for (uint32_t t = 0; t < network.terminal_count(); ++t) {
    if (collective.weights()[t] > 0) least = std::max(least, least_height_from(network, t));
  }
  return least;
}

// Under a height limit the cut condition is necessary, no longer sufficient. Widens the time step by step from the
// optimum until trees that low are found, or until breadth-first trees need no more, then narrows it.
DirectedTrees plan_low_phase(Network network, const Fabric& fabric, const Collective& collective,
                             const CutWitness& witness, int64_t trees, const ForestOptions& options) {
  const uint32_t least = least_height_of_roots(network, collective);
  if (*options.max_height < least) {
    throw Error(ErrorCode::invalid_input, "no tree on this fabric is lower than " + std::to_string(least) +
                                              "; --max-height " + std::to_string(*options.max_height) +
                                              " cannot be met");
  }
  const Fraction start = least_time(trees, network, collective, witness);
  const auto attempt = [&](int64_t part) {
    const auto capacities = find_capacities_at(start * Fraction(part, kTimeParts), trees, network, collective);
    return capacities ? pack_any(network, fabric, *capacities, options) : Trees();
  };
  int64_t low = kTimeParts, high = kTimeParts;
  auto best = attempt(high);
  if (!best.source) {
    BreadthFirstTrees sure = breadth_first_trees(network, supplies(trees, collective));
    const double enough = kTimeParts * sure.time.to_double() / start.to_double();
    for (int64_t widening = kTimeParts / 32; !best.source; widening *= 2) {
      low = high;
      high = kTimeParts + widening;
      if (static_cast<double>(high) < enough)
        best = attempt(high);
      else
        best = {.source = hand_over(std::move(sure.packing))};
    }
  }
  for (int step = 0; step < kNarrowingSteps && high - low > 1; ++step) {
    const int64_t middle = low + (high - low) / 2;
    auto found = attempt(middle);
    (found.source ? high : low) = middle;
    if (found.source) best = std::move(found);
  }
  return {.network = std::move(network), .trees_per_weight = trees * best.parts, .trees = std::move(best.source)};
}

// What bounds one direction of a collective: its narrowest cut, and what links carry where switches cannot be balanced
// at that.
struct Limit {
  CutWitness cut;
  std::optional<BalancedLinks> balanced;

  Fraction bound() const {
    return balanced ? std::max(cut.seconds_per_byte(), balanced->witness.bound) : cut.seconds_per_byte();
  }
  Witness witness() const {
    if (balanced && cut.seconds_per_byte() < balanced->witness.bound) return balanced->witness;
    return cut;
  }
  // What trees of many units reach.
  Fraction seconds_per_byte() const { return balanced ? balanced->seconds_per_byte() : cut.seconds_per_byte(); }
};

Limit find_limit(const Fabric& fabric, const Collective& collective, bool gathering, const ForestOptions& options) {
  Limit limit{.cut = narrowest_cut(fabric, collective, gathering, options.observer), .balanced = {}};
  limit.balanced = balance_links(fabric, collective, limit.cut, options.observer);
  return limit;
}

// What one direction of a collective has to pack.
struct Problem {
  Network network;
  CutWitness witness;
  TreeCapacities capacities;
};

Problem pose_problem(const Fabric& fabric, const Collective& collective, const Limit& limit,
                     const ForestOptions& options) {
  begin(options, PlanObserver::Phase::switches);
  if (limit.balanced && !options.trees && !options.max_height && collective.kind() != CollectiveKind::all_reduce) {
    Network whole(fabric, collective, limit.cut.gathering, options.observer);
    if (auto capacities = few_balanced_trees(limit.seconds_per_byte(), whole, collective))
      return {.network = std::move(whole), .witness = limit.cut, .capacities = std::move(*capacities)};
  }
  const CutWitness& witness = limit.balanced ? limit.balanced->cut : limit.cut;
  Network network =
      limit.balanced ? limit.balanced->network : Network(fabric, collective, witness.gathering, options.observer);
  TreeCapacities capacities =
      options.trees ? capacities_for(static_cast<int64_t>(*options.trees), network, fabric, collective, witness)
                    : optimal_capacities(network, fabric, collective, witness);
  return {.network = std::move(network), .witness = witness, .capacities = std::move(capacities)};
}

// Chunks of an allreduce count their shares in a common unit of both directions. Where it is not countable, the
// direction of fewer trees is planned anew with as many as the other has.
void make_units_common(Problem& gather, Problem& spread, const Fabric& fabric, const Collective& collective) {
  const int128 in = gather.capacities.trees_per_weight, out = spread.capacities.trees_per_weight;
  const int128 common = in / std::gcd(gather.capacities.trees_per_weight, spread.capacities.trees_per_weight) * out;
  if (is_countable(common, gather.network, collective)) return;
  Problem& rounded = in < out ? gather : spread;
  const int64_t trees = static_cast<int64_t>(std::max(in, out));
  rounded.capacities = rounded_capacities(trees, rounded.network, fabric, collective, rounded.witness);
}

DirectedTrees solve(Problem problem, const Fabric& fabric, const Collective& collective, const ForestOptions& options) {
  const int64_t trees = problem.capacities.trees_per_weight;
  if (options.max_height)
    return plan_low_phase(std::move(problem.network), fabric, collective, problem.witness, trees, options);
  Trees packed = pack_any(problem.network, fabric, problem.capacities, options);
  CHECK(packed.source != nullptr) << "no packing although the cut condition holds";
  return {.network = std::move(problem.network),
          .trees_per_weight = trees * packed.parts,
          .trees = std::move(packed.source)};
}

// What rounding to this number of trees can cost.
Fraction rounding_excess(const Fabric& fabric, const Collective& collective, std::span<const Limit> limits,
                         int64_t trees, int64_t roundings) {
  uint64_t least = UINT64_MAX;
  for (const Link& link : fabric.links()) least = std::min(least, link.bandwidth.bytes_per_second());
  Fraction narrowest(static_cast<int128>(least), 1);
  for (const Limit& limit : limits) {
    if (!limit.balanced) continue;
    const auto& [witness, network, cut, unit_bytes] = *limit.balanced;
    const int64_t carried = *std::ranges::min_element(network.bandwidths());
    narrowest = std::min(narrowest, unit_bytes * Fraction(int128{carried} * static_cast<int128>(network.unit()), 1));
  }
  return Fraction(roundings, int128{trees} * static_cast<int128>(collective.total_weight())) / narrowest;
}

// Both directions of a collective, each planned by itself against the whole fabric.
struct Phases {
  std::optional<DirectedTrees> gather, spread;
  int64_t trees = 0;      // per unit of weight
  int64_t roundings = 0;  // how often capacities were rounded for that number of trees
};

Phases plan_phases(const Fabric& fabric, const Collective& collective, std::span<const Limit> limits,
                   const ForestOptions& options) {
  std::optional<Problem> gathering, spreading;
  // On a fabric whose links all have opposites, the reduce trees of an allreduce are its spread trees turned round.
  const bool mirrored = collective.reduces() && collective.spreads() && opposite_links(fabric).has_value();
  for (const Limit& limit : limits) {
    if (limit.cut.gathering && mirrored) continue;
    (limit.cut.gathering ? gathering : spreading) = pose_problem(fabric, collective, limit, options);
  }
  if (gathering && spreading) make_units_common(*gathering, *spreading, fabric, collective);
  Phases phases;
  for (std::optional<Problem>* problem : {&gathering, &spreading}) {
    if (!*problem) continue;
    phases.trees = (*problem)->capacities.trees_per_weight;
    phases.roundings += ((*problem)->capacities.exact ? (options.trees ? 1 : 0) : 2) * (mirrored ? 2 : 1);
    (problem == &gathering ? phases.gather : phases.spread) = solve(std::move(**problem), fabric, collective, options);
  }
  return phases;
}

// Takes the shares for as few trees as are still in proportion: supplies in lowest terms, and fewer where rounding
// capacities down leaves enough (as in capacities.h, where only binding cuts must be whole).
void make_trees_few(OverlapShares& shares, const Network& spread, const Network& gather) {
  constexpr int64_t kMostTried = 64;
  int64_t common = 0;
  for (const int64_t supply : shares.supply) common = std::gcd(common, supply);
  const auto is_feasible = [](const Network& network, std::vector<int64_t>& capacity, std::vector<int64_t> supply) {
    supply.resize(network.terminal_count(), 0);
    return !CutCondition(network).find_violated({.capacity = capacity, .supply = supply}) &&
           !balance_switches(network, capacity, supply);
  };
  for (int64_t trees = 1; trees < common && trees <= kMostTried; ++trees) {
    OverlapShares fewer = shares;
    fewer.parts = shares.parts * Fraction(trees, common);
    for (int64_t& supply : fewer.supply) supply = supply / common * trees;
    for (std::vector<int64_t>* of : {&fewer.gather, &fewer.spread}) {
      for (int64_t& capacity : *of) capacity = static_cast<int64_t>(int128{capacity} * trees / common);
    }
    if (!is_feasible(spread, fewer.spread, fewer.supply) || !is_feasible(gather, fewer.gather, fewer.supply)) continue;
    shares = std::move(fewer);
    return;
  }
}

// Both directions of an allreduce, each on its share of the links.
Phases plan_on_shares(const Fabric& fabric, const Collective& collective, OverlapShares shares,
                      const ForestOptions& options) {
  const auto network = [&](bool gathering) {
    return Network(fabric, collective, gathering, options.observer,
                   gathering ? shares.terminals.gather : shares.terminals.spread);
  };
  make_trees_few(shares, network(false), network(true));
  const bool mirrored = shares.is_mirrored && opposite_links(fabric).has_value();
  const auto plan = [&](bool gathering) {
    DirectedTrees phase{.network = network(gathering), .trees_per_weight = 1, .trees = {}};
    begin(options, PlanObserver::Phase::packing);
    TreeCapacities capacities{
        .trees_per_weight = 1, .capacity = gathering ? shares.gather : shares.spread, .supply = shares.supply};
    capacities.supply.resize(phase.network.terminal_count(), 0);
    phase.trees = pack(phase.network, fabric, capacities, options);
    CHECK(phase.trees != nullptr) << "no packing although the cut condition holds";
    return phase;
  };
  Phases phases{.gather = {}, .spread = plan(false), .trees = 0, .roundings = 0};
  if (!mirrored) phases.gather = plan(true);
  return phases;
}

// Trees that branch at switches, each at its own, or nothing where none are found.
std::optional<Schedule> plan_priced(const Fabric& fabric, const Collective& collective, const Fraction& bound,
                                    const ForestOptions& options) {
  if (options.trees || options.max_height) return std::nullopt;
  begin(options, PlanObserver::Phase::packing);
  auto trees = pack_priced_trees(fabric, collective, bound, options.observer);
  if (!trees) return std::nullopt;
  const auto phase = [&](std::unique_ptr<TreeSource> of, bool gathering) -> std::optional<DirectedTrees> {
    if (!of) return std::nullopt;
    return DirectedTrees{
        .network = Network(fabric, collective, gathering), .trees_per_weight = 1, .trees = std::move(of)};
  };
  return to_schedule(fabric, collective, phase(std::move(trees->gather), true), phase(std::move(trees->spread), false));
}

struct Made {
  Schedule schedule;
  bool is_priced = false;
};

// What `plan` makes; where a switch that stays unbalanced keeps it from it, priced trees.
template <typename Plan>
Made plan_or_price(const Fabric& fabric, const Collective& collective, const Fraction& bound,
                   const ForestOptions& options, const Plan& plan) {
  try {
    return {.schedule = plan()};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    auto priced = plan_priced(fabric, collective, bound, options);
    if (!priced) throw;
    return {.schedule = std::move(*priced), .is_priced = true};
  }
}

bool has_powers(const Fabric& fabric) {
  return std::ranges::any_of(fabric.nodes(), [](const Node& node) { return node.multicast || node.reduce; });
}

// A broadcast or reduce whose trees branch at switches loads the links around them once: such trees are lower and fewer
// where they are as fast.
void prefer_lower(Made& made, const Fabric& fabric, const Collective& collective, const Fraction& bound,
                  const ForestOptions& options) {
  if (made.is_priced || !collective.is_rooted() || !has_powers(fabric)) return;
  auto priced = plan_priced(fabric, collective, bound, options);
  if (!priced || seconds_per_byte(made.schedule) < seconds_per_byte(*priced)) return;
  const uint32_t before = heights(made.schedule).max, now = heights(*priced).max;
  if (std::pair(now, priced->chunk_count()) < std::pair(before, made.schedule.chunk_count())) {
    made = {.schedule = std::move(*priced), .is_priced = true};
  }
}

// An allreduce. Where a reduce-scatter and an allgather, one after the other, are as fast as any plan, they are taken:
// such plans are simpler.
ForestPlan plan_allreduce(const Fabric& fabric, const Collective& collective, const ForestOptions& options) {
  Overlap overlap = solve_overlap(fabric, collective, options.observer);
  const Limit limits[] = {find_limit(fabric, collective, true, options),
                          find_limit(fabric, collective, false, options)};
  const Fraction one_after_the_other = limits[0].seconds_per_byte() + limits[1].seconds_per_byte();
  const Fraction bound = overlap.witness.bound;
  const Fraction overlapped = overlap.shares && !options.trees && !options.max_height
                                  ? overlap.shares->seconds_per_byte(Network(fabric, collective, false))
                                  : one_after_the_other;
  const bool may_overlap = overlapped < one_after_the_other;
  // Where the fabric has symmetries, priced trees are few and quickly found: they are taken if they are as fast.
  const bool may_branch = has_powers(fabric) && !options.trees && !options.max_height;
  const bool prices_first = may_branch && may_overlap && !fabric.symmetries().empty();
  std::optional<Schedule> priced;
  if (prices_first || (may_branch && bound < overlapped)) priced = plan_priced(fabric, collective, bound, options);
  Fraction rounding(0);
  const auto plan = [&] {
    Phases phases = may_overlap ? plan_on_shares(fabric, collective, *overlap.shares, options)
                                : plan_phases(fabric, collective, limits, options);
    if (phases.roundings > 0) rounding = rounding_excess(fabric, collective, limits, phases.trees, phases.roundings);
    return to_schedule(fabric, collective, std::move(phases.gather), std::move(phases.spread));
  };
  const Fraction priced_time = priced ? seconds_per_byte(*priced) : Fraction(0);
  Made made = priced && (priced_time < overlapped || (prices_first && priced_time == overlapped))
                  ? Made{.schedule = std::move(*priced), .is_priced = true}
                  : plan_or_price(fabric, collective, bound, options, plan);
  const Fraction time = seconds_per_byte(made.schedule);
  const bool is_unknown = bound < time && (made.is_priced || may_branch);
  Fraction excess(0);
  if (bound < time && !options.max_height && !is_unknown) {
    excess = (may_overlap ? time : one_after_the_other) - bound + rounding;
  }
  return {.schedule = std::move(made.schedule),
          .bound = {.seconds_per_byte = bound, .witness = std::move(overlap.witness)},
          .seconds_per_byte = time,
          .optimal = time <= bound,
          .guaranteed_excess = excess,
          .gave_up_overlap = !overlap.shares && bound < time && !is_unknown,
          .is_optimum_unknown = is_unknown};
}

}  // namespace

uint32_t least_tree_height(const Fabric& fabric, const Collective& collective) {
  const auto least_of = [&](bool reversed) {
    return least_height_of_roots(Network(fabric, collective, reversed), collective);
  };
  return std::max(collective.reduces() ? least_of(true) : 0, collective.spreads() ? least_of(false) : 0);
}

ForestPlan plan_forest(const Fabric& fabric, const Collective& collective, const ForestOptions& options) {
  constexpr uint64_t kMaxTrees = 1'000'000;
  if (options.trees && (*options.trees == 0 || *options.trees > kMaxTrees)) {
    throw Error(ErrorCode::invalid_input,
                "--trees " + std::to_string(*options.trees) + " is not between 1 and " + std::to_string(kMaxTrees));
  }
  if (collective.is_personal()) {
    throw Error(ErrorCode::unsupported, "a forest spreads the same to all ranks; it has no schedules for " +
                                            std::string(to_string(collective.kind())));
  }
  begin(options, PlanObserver::Phase::bound);
  if (collective.kind() == CollectiveKind::all_reduce) return plan_allreduce(fabric, collective, options);
  const Limit limit = find_limit(fabric, collective, collective.reduces(), options);
  const Fraction bound = limit.bound();
  Fraction rounding(0);
  const auto plan = [&] {
    Phases phases = plan_phases(fabric, collective, {&limit, 1}, options);
    if (phases.roundings > 0)
      rounding = rounding_excess(fabric, collective, {&limit, 1}, phases.trees, phases.roundings);
    return to_schedule(fabric, collective, std::move(phases.gather), std::move(phases.spread));
  };
  Made made = plan_or_price(fabric, collective, bound, options, plan);
  prefer_lower(made, fabric, collective, bound, options);
  const Fraction time = seconds_per_byte(made.schedule);
  const bool optimal = time <= bound;
  const Fraction excess =
      optimal || options.max_height || made.is_priced ? Fraction(0) : limit.seconds_per_byte() - bound + rounding;
  return {.schedule = std::move(made.schedule),
          .bound = {.seconds_per_byte = bound, .witness = limit.witness()},
          .seconds_per_byte = time,
          .optimal = optimal,
          .guaranteed_excess = excess,
          .is_optimum_unknown = made.is_priced && !optimal};
}

}  // namespace banyan::plan
