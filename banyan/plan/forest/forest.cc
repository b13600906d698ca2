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

uint32_t least_height_of_roots(const Network& network, const Collective& collective) {
  uint32_t least = 0;
  for (uint32_t t = 0; t < network.terminal_count(); ++t) {
    if (collective.weights()[t] > 0) least = std::max(least, least_height_from(network, t));
  }
  return least;
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

// What one direction of a collective has to pack.
struct Problem {
  Network network;
  CutWitness witness;
  TreeCapacities capacities;
};

// Both directions of a collective, each planned by itself against the whole fabric.
struct Phases {
  std::optional<DirectedTrees> gather, spread;
  int64_t trees = 0;      // per unit of weight
  int64_t roundings = 0;  // how often capacities were rounded for that number of trees
};

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

struct Made {
  Schedule schedule;
  bool is_priced = false;
};

bool has_powers(const Fabric& fabric) {
  return std::ranges::any_of(fabric.nodes(), [](const Node& node) { return node.multicast || node.reduce; });
}

// Plans one collective on one fabric. Both directions of it are planned in the same way; an allreduce has both.
class ForestPlanner {
 public:
  ForestPlanner(const Fabric& fabric, const Collective& collective, const ForestOptions& options)
      : fabric_(fabric), collective_(collective), options_(options) {}

  ForestPlan plan() {
    begin(PlanObserver::Phase::bound);
    if (collective_.kind() == CollectiveKind::all_reduce) return plan_allreduce();
    // 1. The bound: the narrowest cut, or the program where switches cannot be balanced at it.
    const Limit limit = find_limit(collective_.reduces());
    const Fraction bound = limit.bound();
    Fraction rounding(0);
    const auto plan = [&] {
      Phases phases = plan_phases({&limit, 1});
      rounding = rounding_excess({&limit, 1}, phases);
      return to_schedule(fabric_, collective_, std::move(phases.gather), std::move(phases.spread));
    };
    // 2. The trees, packed from capacities at the bound, or priced where that is not possible.
    Made made = plan_or_price(bound, plan);
    prefer_lower(made, bound);
    // 3. What was reached, and how far above the bound it can be at most.
    const Fraction time = seconds_per_byte(made.schedule);
    const bool optimal = time <= bound;
    const Fraction excess =
        optimal || options_.max_height || made.is_priced ? Fraction(0) : limit.seconds_per_byte() - bound + rounding;
    return {.schedule = std::move(made.schedule),
            .bound = {.seconds_per_byte = bound, .witness = limit.witness()},
            .seconds_per_byte = time,
            .optimal = optimal,
            .guaranteed_excess = excess,
            .is_optimum_unknown = made.is_priced && !optimal};
  }

 private:
  void begin(PlanObserver::Phase phase) {
    if (options_.observer) options_.observer->phase_begins(phase);
  }

  TreeQuestion question_of(const Network& network, const CutWitness& witness) const {
    return {.network = network, .fabric = fabric_, .collective = collective_, .witness = witness};
  }

  PackingOptions packing_options() {
    PackingOptions result{.max_height = options_.max_height, .lower = options_.lower};
    if (!options_.observer) return result;
    result.progress = [this](double done) { options_.observer->progress(done); };
    result.lowering_begins = [this] { begin(PlanObserver::Phase::lowering); };
    return result;
  }

  // Trees for given capacities, or null when the height does not allow it: the two guesses that cost little, taken only
  // if they come out low, then the search that cannot fail. Trees along shortest paths are as low as any. Switches that
  // trees need not span are left out of them.
  std::unique_ptr<TreeSource> pack(const Network& network, const TreeCapacities& capacities) {
    const bool spans_switches = network.terminal_count() > network.participant_count();
    if (auto trees =
            spans_switches ? nullptr : pack_along_shortest_paths(network, capacities.capacity, capacities.supply);
        trees && trees->height() <= options_.max_height.value_or(UINT32_MAX))
      return trees;
    if (auto trees = pack_by_rotation(network, fabric_, capacities.capacity, capacities.supply, options_.max_height))
      return trees;
    auto packing = pack_trees(network, capacities.capacity, capacities.supply, packing_options());
    if (packing && spans_switches) packing = without_idle_switches(network, *packing);
    return packing ? hand_over(std::move(*packing)) : nullptr;
  }

  // The same where one participant roots all trees: these are planned together if they can be.
  std::optional<OneRootPacking> pack_rooted(const Network& network, const TreeCapacities& capacities) {
    const auto owes = [](int64_t units) { return units > 0; };
    if (std::ranges::count_if(capacities.supply, owes) != 1) return std::nullopt;
    const auto root = std::ranges::find_if(capacities.supply, owes);
    // No arc has a capacity of more than all trees once for each terminal (capacities.cc), and sums over arcs are
    // counted in 64 bits.
    const int64_t countable =
        (int64_t{1} << 61) / (network.terminal_count() + int64_t{1}) / static_cast<int64_t>(network.arcs().size());
    begin(PlanObserver::Phase::one_root);
    return pack_one_root({.network = network,
                          .fabric = fabric_,
                          .capacity = capacities.capacity,
                          .root = static_cast<uint32_t>(root - capacities.supply.begin()),
                          .supply = *root,
                          .most_units = options_.trees ? *root : countable,
                          .max_height = options_.max_height,
                          .progress = packing_options().progress});
  }

  // Without a source when the height does not allow it.
  Trees pack_any(const Network& network, const TreeCapacities& capacities) {
    if (auto rooted = pack_rooted(network, capacities))
      return {.source = hand_over(std::move(rooted->packing)), .parts = rooted->parts};
    begin(PlanObserver::Phase::packing);
    return {.source = pack(network, capacities)};
  }

  // Under a height limit the cut condition is necessary, no longer sufficient. Widens the time step by step from the
  // optimum until trees that low are found, or until breadth-first trees need no more, then narrows it.
  DirectedTrees plan_low_phase(Network network, const CutWitness& witness, int64_t trees) {
    const uint32_t least = least_height_of_roots(network, collective_);
    if (*options_.max_height < least) {
      throw invalid("no tree on this fabric is lower than " + std::to_string(least) + "; --max-height " +
                    std::to_string(*options_.max_height) + " cannot be met");
    }
    const TreeQuestion question = question_of(network, witness);
    const Fraction start = least_time(trees, question);
    const auto attempt = [&](int64_t part) {
      const auto capacities = find_capacities_at(start * Fraction(part, kTimeParts), trees, question);
      return capacities ? pack_any(network, *capacities) : Trees();
    };
    // 1. Widen: the time grows in steps that double until trees are found.
    int64_t low = kTimeParts, high = kTimeParts;
    auto best = attempt(high);
    if (!best.source) {
      BreadthFirstTrees sure = breadth_first_trees(network, supplies(trees, collective_));
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
    // 2. Narrow: a few halvings between the last time without trees and the first one with them.
    for (int step = 0; step < kNarrowingSteps && high - low > 1; ++step) {
      const int64_t middle = low + (high - low) / 2;
      auto found = attempt(middle);
      (found.source ? high : low) = middle;
      if (found.source) best = std::move(found);
    }
    return {.network = std::move(network), .trees_per_weight = trees * best.parts, .trees = std::move(best.source)};
  }

  Limit find_limit(bool gathering) {
    Limit limit{.cut = narrowest_cut(fabric_, collective_, gathering, options_.observer), .balanced = {}};
    limit.balanced = balance_links(fabric_, collective_, limit.cut, options_.observer);
    return limit;
  }

  Problem pose_problem(const Limit& limit) {
    begin(PlanObserver::Phase::switches);
    // Switches that are not balanced need few trees if those may choose among all bandwidth. Else the bound's own links
    // serve.
    if (limit.balanced && !options_.trees && !options_.max_height && collective_.kind() != CollectiveKind::all_reduce) {
      Network whole(fabric_, collective_, limit.cut.gathering, options_.observer);
      if (auto capacities = few_balanced_trees(limit.seconds_per_byte(), whole, collective_))
        return {.network = std::move(whole), .witness = limit.cut, .capacities = std::move(*capacities)};
    }
    const CutWitness& witness = limit.balanced ? limit.balanced->cut : limit.cut;
    Network network =
        limit.balanced ? limit.balanced->network : Network(fabric_, collective_, witness.gathering, options_.observer);
    const TreeQuestion question = question_of(network, witness);
    TreeCapacities capacities =
        options_.trees ? capacities_for(static_cast<int64_t>(*options_.trees), question) : optimal_capacities(question);
    return {.network = std::move(network), .witness = witness, .capacities = std::move(capacities)};
  }

  // Chunks of an allreduce count their shares in a common unit of both directions. Where it is not countable, the
  // direction of fewer trees is planned anew with as many as the other has.
  void make_units_common(Problem& gather, Problem& spread) {
    const int128 in = gather.capacities.trees_per_weight, out = spread.capacities.trees_per_weight;
    const int128 common = in / std::gcd(gather.capacities.trees_per_weight, spread.capacities.trees_per_weight) * out;
    if (is_countable(common, gather.network, collective_)) return;
    Problem& rounded = in < out ? gather : spread;
    const int64_t trees = static_cast<int64_t>(std::max(in, out));
    rounded.capacities = rounded_capacities(trees, question_of(rounded.network, rounded.witness));
  }

  DirectedTrees solve(Problem problem) {
    const int64_t trees = problem.capacities.trees_per_weight;
    if (options_.max_height) return plan_low_phase(std::move(problem.network), problem.witness, trees);
    Trees packed = pack_any(problem.network, problem.capacities);
    CHECK(packed.source != nullptr) << "no packing although the cut condition holds";
    return {.network = std::move(problem.network),
            .trees_per_weight = trees * packed.parts,
            .trees = std::move(packed.source)};
  }

  // What rounding capacities can have cost.
  Fraction rounding_excess(std::span<const Limit> limits, const Phases& phases) {
    if (phases.roundings == 0) return Fraction(0);
    uint64_t least = UINT64_MAX;
    for (const Link& link : fabric_.links()) least = std::min(least, link.bandwidth.bytes_per_second());
    Fraction narrowest(static_cast<int128>(least), 1);
    for (const Limit& limit : limits) {
      if (!limit.balanced) continue;
      const auto& [witness, network, cut, unit_bytes] = *limit.balanced;
      const int64_t carried = *std::ranges::min_element(network.bandwidths());
      narrowest = std::min(narrowest, unit_bytes * Fraction(int128{carried} * static_cast<int128>(network.unit()), 1));
    }
    return Fraction(phases.roundings, int128{phases.trees} * static_cast<int128>(collective_.total_weight())) /
           narrowest;
  }

  Phases plan_phases(std::span<const Limit> limits) {
    std::optional<Problem> gathering, spreading;
    // On a fabric whose links all have opposites, the reduce trees of an allreduce are its spread trees turned round.
    const bool mirrored = collective_.reduces() && collective_.spreads() && opposite_links(fabric_).has_value();
    for (const Limit& limit : limits) {
      if (limit.cut.gathering && mirrored) continue;
      (limit.cut.gathering ? gathering : spreading) = pose_problem(limit);
    }
    if (gathering && spreading) make_units_common(*gathering, *spreading);
    Phases phases;
    for (std::optional<Problem>* problem : {&gathering, &spreading}) {
      if (!*problem) continue;
      phases.trees = (*problem)->capacities.trees_per_weight;
      phases.roundings += ((*problem)->capacities.exact ? (options_.trees ? 1 : 0) : 2) * (mirrored ? 2 : 1);
      (problem == &gathering ? phases.gather : phases.spread) = solve(std::move(**problem));
    }
    return phases;
  }

  // Both directions of an allreduce, each on its share of the links.
  Phases plan_on_shares(OverlapShares shares) {
    const auto network = [&](bool gathering) {
      return Network(fabric_, collective_, gathering, options_.observer,
                     gathering ? shares.terminals.gather : shares.terminals.spread);
    };
    make_trees_few(shares, network(false), network(true));
    const bool mirrored = shares.is_mirrored && opposite_links(fabric_).has_value();
    const auto plan = [&](bool gathering) {
      DirectedTrees phase{.network = network(gathering), .trees_per_weight = 1, .trees = {}};
      begin(PlanObserver::Phase::packing);
      TreeCapacities capacities{
          .trees_per_weight = 1, .capacity = gathering ? shares.gather : shares.spread, .supply = shares.supply};
      capacities.supply.resize(phase.network.terminal_count(), 0);
      phase.trees = pack(phase.network, capacities);
      CHECK(phase.trees != nullptr) << "no packing although the cut condition holds";
      return phase;
    };
    Phases phases{.gather = {}, .spread = plan(false), .trees = 0, .roundings = 0};
    if (!mirrored) phases.gather = plan(true);
    return phases;
  }

  // Trees that branch at switches, each at its own, or nothing where none are found.
  std::optional<Schedule> plan_priced(const Fraction& bound) {
    if (options_.trees || options_.max_height) return std::nullopt;
    begin(PlanObserver::Phase::packing);
    auto trees = pack_priced_trees(fabric_, collective_, bound, options_.observer);
    if (!trees) return std::nullopt;
    const auto phase = [&](std::unique_ptr<TreeSource> of, bool gathering) -> std::optional<DirectedTrees> {
      if (!of) return std::nullopt;
      return DirectedTrees{
          .network = Network(fabric_, collective_, gathering), .trees_per_weight = 1, .trees = std::move(of)};
    };
    return to_schedule(fabric_, collective_, phase(std::move(trees->gather), true),
                       phase(std::move(trees->spread), false));
  }

  // What `plan` makes; where a switch that stays unbalanced keeps it from it, priced trees.
  template <typename Plan>
  Made plan_or_price(const Fraction& bound, const Plan& plan) {
    try {
      return {.schedule = plan()};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      auto priced = plan_priced(bound);
      if (!priced) throw;
      return {.schedule = std::move(*priced), .is_priced = true};
    }
  }

  // A broadcast or reduce whose trees branch at switches loads the links around them once: such trees are lower and
  // fewer where they are as fast.
  void prefer_lower(Made& made, const Fraction& bound) {
    if (made.is_priced || !collective_.is_rooted() || !has_powers(fabric_)) return;
    auto priced = plan_priced(bound);
    if (!priced || seconds_per_byte(made.schedule) < seconds_per_byte(*priced)) return;
    const uint32_t before = heights(made.schedule).max, now = heights(*priced).max;
    if (std::pair(now, priced->chunk_count()) < std::pair(before, made.schedule.chunk_count())) {
      made = {.schedule = std::move(*priced), .is_priced = true};
    }
  }

  // An allreduce. Where a reduce-scatter and an allgather, one after the other, are as fast as any plan, they are
  // taken: such plans are simpler.
  ForestPlan plan_allreduce() {
    // 1. Three times to compare: the bound of both directions at once, trees on shares of the links, and both
    // directions one after the other.
    Overlap overlap = solve_overlap(fabric_, collective_, options_.observer);
    const Limit limits[] = {find_limit(true), find_limit(false)};
    const Fraction one_after_the_other = limits[0].seconds_per_byte() + limits[1].seconds_per_byte();
    const Fraction bound = overlap.witness.bound;
    const Fraction overlapped = overlap.shares && !options_.trees && !options_.max_height
                                    ? overlap.shares->seconds_per_byte(Network(fabric_, collective_, false))
                                    : one_after_the_other;
    const bool may_overlap = overlapped < one_after_the_other;
    // Where the fabric has symmetries, priced trees are few and quickly found: they are taken if they are as fast.
    const bool may_branch = has_powers(fabric_) && !options_.trees && !options_.max_height;
    const bool prices_first = may_branch && may_overlap && !fabric_.symmetries().empty();
    std::optional<Schedule> priced;
    if (prices_first || (may_branch && bound < overlapped)) priced = plan_priced(bound);
    Fraction rounding(0);
    const auto plan = [&] {
      Phases phases = may_overlap ? plan_on_shares(*overlap.shares) : plan_phases(limits);
      rounding = rounding_excess(limits, phases);
      return to_schedule(fabric_, collective_, std::move(phases.gather), std::move(phases.spread));
    };
    // 2. Trees: priced ones where they are quicker, else packed ones on shares or one after the other.
    const Fraction priced_time = priced ? seconds_per_byte(*priced) : Fraction(0);
    Made made = priced && (priced_time < overlapped || (prices_first && priced_time == overlapped))
                    ? Made{.schedule = std::move(*priced), .is_priced = true}
                    : plan_or_price(bound, plan);
    const Fraction time = seconds_per_byte(made.schedule);
    // 3. The distance to the bound; with priced trees nobody knows whether less is possible.
    const bool is_unknown = bound < time && (made.is_priced || may_branch);
    Fraction excess(0);
    if (bound < time && !options_.max_height && !is_unknown) {
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

  const Fabric& fabric_;
  const Collective& collective_;
  const ForestOptions& options_;
};

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
    throw invalid("--trees " + std::to_string(*options.trees) + " is not between 1 and " + std::to_string(kMaxTrees));
  }
  if (collective.is_personal()) {
    throw Error(ErrorCode::unsupported, "a forest spreads the same to all ranks; it has no schedules for " +
                                            std::string(to_string(collective.kind())));
  }
  return ForestPlanner(fabric, collective, options).plan();
}

}  // namespace banyan::plan
