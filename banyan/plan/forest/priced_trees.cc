#include "banyan/plan/forest/priced_trees.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/plan/forest/rotated_trees.h"
#include "banyan/plan/forest/steiner_tree.h"
#include "banyan/plan/forest/symmetry.h"
#include "banyan/plan/graph/arc_classes.h"
#include "banyan/plan/lp/linear_program.h"

namespace banyan::plan {
namespace {

constexpr double kSame = 1e-9;
// Throughput that is not worth another round, as a part of it, and after so many rounds with no more.
constexpr double kLittle = 1e-4;
constexpr uint32_t kPatience = 12;
constexpr uint32_t kMostRounds = 400;
// Nodes^3 of one tree, times the trees of a round; and numbers that pivots look at.
constexpr uint64_t kMostNumbers = 3'000'000'000;
// Shares of trees are taken for fractions with denominators up to here, else rounded down to this part of the whole.
constexpr int64_t kMostDenominator = 2'000;
constexpr int64_t kMostCommon = int64_t{1} << 24;
constexpr double kNear = 1e-7;
constexpr double kFineness = 0x1p20;

std::vector<uint32_t> branching_switches(const Network& network, const Fabric& fabric, bool gathering) {
  std::vector<uint32_t> result;
  for (uint32_t v = network.participant_count(); v < network.vertex_count(); ++v) {
    const Node& node = fabric.node(network.node_of(v));
    if (gathering ? node.reduce : node.multicast) result.push_back(v);
  }
  return result;
}

// Classes that a group acts on as Symmetry does: parallel links, which it never exchanges, would be counted as one.
// None where ranks that are alike have different weights.
ArcClasses classes_of(const Network& network, const Fabric& fabric, const Collective& collective) {
  const auto weights = collective.weights();
  const bool are_even = std::ranges::all_of(weights, [&](uint64_t weight) { return weight == weights.front(); });
  if (!are_even && collective.kind() != CollectiveKind::all_reduce) return ArcClasses::alone(network);
  std::set<std::pair<uint32_t, uint32_t>> ends;
  for (const Arc& arc : network.arcs()) {
    if (!ends.emplace(arc.tail, arc.head).second) return ArcClasses::alone(network);
  }
  return ArcClasses(network, fabric);
}

class PricedTreePacker {
 public:
  PricedTreePacker(const Fabric& fabric, const Collective& collective, PlanObserver* observer)
      : fabric_(fabric),
        collective_(collective),
        spread_(fabric, collective, false, observer),
        gather_(fabric, collective, true, observer),
        classes_(classes_of(spread_, fabric, collective)),
        is_free_(collective.kind() == CollectiveKind::all_reduce),
        is_mirrored_(is_free_ && classes_.is_symmetric()) {
    for (uint32_t t = 0; t < spread_.participant_count(); ++t) {
      if (root_column_.try_emplace(classes_.of_vertex(t), 0).second) roots_.push_back(t);
    }
    for (const bool gathering : {false, true}) {
      if (!is_planned(gathering)) continue;
      cheapest_.emplace(gathering,
                        SteinerTrees(network(gathering), branching_switches(network(gathering), fabric, gathering)));
    }
    add_columns();
  }

  bool is_too_large() const { return cost_of_round() * 4 > kMostNumbers; }

  void search(double enough) {
    uint64_t spent = 0;
    double best = 0;
    uint32_t stalled = 0;
    std::vector<double> prices = first_prices();
    for (uint32_t round = 0; round < kMostRounds && spent < kMostNumbers; ++round) {
      spent += cost_of_round();
      // No tree that was found is cheaper than the known ones. The search for trees is a guess, so better may exist.
      if (!add_trees(prices, round == 0)) break;
      const auto works_on = [&] {
        spread_.tell_observer();
        spent += 64 * (rows_ + columns_);
      };
      // The dual with one more tree for each root: new prices of links, and a throughput that can only grow.
      solution_ = program_.solve(works_on);
      const double throughput = solution_.value;
      if (throughput >= enough * (1 - kSame)) break;
      // Rounds that bring nothing more are not endless: the search gives up after some of them.
      stalled = throughput > best * (1 + kLittle) ? 0 : stalled + 1;
      best = std::max(best, throughput);
      if (stalled > kPatience) break;
      prices.assign(prices.size(), 0);
      for (uint32_t p = 0; p < prices.size(); ++p) prices[p] = std::max(0.0, value(price_column_[p]));
    }
  }

  // In bytes per second.
  double unit() const { return static_cast<double>(spread_.unit()) * mean_; }

  std::optional<PricedTrees> trees();

 private:
  struct Known {
    bool gathering = false;
    uint32_t root = 0;
    size_t row = 0;
    SteinerTrees::Tree tree;
  };

  double value(int column) const { return solution_.columns[static_cast<size_t>(column)]; }
  const Network& network(bool gathering) const { return gathering ? gather_ : spread_; }
  bool is_planned(bool gathering) const {
    // A mirrored allreduce needs one direction: the other is that one turned round.
    if (gathering) return collective_.reduces() && !is_mirrored_;
    return collective_.spreads();
  }
  uint64_t cost_of_round() const {
    uint64_t cost = 0;
    for (const auto& [gathering, trees] : cheapest_) cost += trees.work() * (1 + roots_.size());
    return cost;
  }
  uint32_t price_of(uint32_t arc) const {
    // Mirrored classes share a price: a tree loads one of them, and the same tree turned round the other.
    const uint32_t c = classes_.of_arc(arc);
    return is_mirrored_ ? std::min(c, classes_.opposite(c)) : c;
  }

  void add_columns();
  std::vector<double> first_prices() const;
  bool add_trees(std::span<const double> prices, bool is_first);
  std::optional<std::vector<int64_t>> units_of_trees(std::vector<double> rates) const;
  void level(std::vector<int64_t>& units) const;
  std::unique_ptr<TreeSource> source(bool gathering, std::span<const int64_t> units) const;

  const Fabric& fabric_;
  const Collective& collective_;
  Network spread_, gather_;
  ArcClasses classes_;
  bool is_free_;  // roots have what the program gives them
  bool is_mirrored_;
  std::map<bool, SteinerTrees> cheapest_;
  std::vector<uint32_t> roots_;  // one participant of each class
  double mean_ = 1;              // bandwidth, in network units: the unit of the program
  LinearProgram program_;
  LinearProgram::Solution solution_;
  size_t rows_ = 0, columns_ = 0;
  std::vector<int> price_column_;        // by class of arcs; of a mirrored pair by its first
  std::map<uint32_t, int> root_column_;  // by class of participants: the price of a tree
  std::map<std::pair<bool, uint32_t>, int> tree_price_;
  std::vector<Known> known_;
};

// The dual: the least worth of all links, of prices at which the trees of a root are worth its members, or of all roots
// together what their weights say.
void PricedTreePacker::add_columns() {
  const auto bandwidths = spread_.bandwidths();
  mean_ = std::accumulate(bandwidths.begin(), bandwidths.end(), 0.0) / static_cast<double>(bandwidths.size());
  // The objective: every price times the bandwidth of its links.
  std::vector<double> worth(classes_.arc_classes(), 0);
  for (uint32_t a = 0; a < bandwidths.size(); ++a) worth[price_of(a)] += static_cast<double>(bandwidths[a]) / mean_;
  for (const double of : worth) price_column_.push_back(program_.add_column(of));
  std::vector<LinearProgram::Term> all;
  const auto size = [&](uint32_t root) { return static_cast<double>(classes_.vertex_size(classes_.of_vertex(root))); };
  // A column for the price of a tree, for each root and direction.
  std::vector<std::vector<LinearProgram::Term>> per_root;
  for (const uint32_t root : roots_) {
    per_root.emplace_back();
    for (const auto& [gathering, trees] : cheapest_) {
      const int column = program_.add_column(0);
      tree_price_[{gathering, root}] = column;
      per_root.back().push_back({.column = column, .factor = 1});
      const double weight = static_cast<double>(collective_.weights()[root]);
      if (weight > 0) all.push_back({.column = column, .factor = weight});
    }
  }
  columns_ = price_column_.size() + tree_price_.size();
  // The roots' parts are given, so one row weighs them all. An allreduce has a row for each class: its roots are free.
  if (!is_free_) {
    program_.add_row(all, static_cast<double>(collective_.total_weight()), LinearProgram::kInfinity);
    rows_ = 1;
    return;
  }
  for (size_t i = 0; i < roots_.size(); ++i) {
    program_.add_row(per_root[i], size(roots_[i]), LinearProgram::kInfinity);
  }
  rows_ = roots_.size();
}

std::vector<double> PricedTreePacker::first_prices() const {
  // Without a solution a link's price is one over its bandwidth: wide links are cheap.
  std::vector<double> prices(price_column_.size(), 0);
  for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
    prices[price_of(a)] = mean_ / static_cast<double>(spread_.bandwidths()[a]);
  }
  return prices;
}

// The cheapest tree of every root and direction, where it is cheaper than those that are known. Whether any was.
bool PricedTreePacker::add_trees(std::span<const double> prices, bool is_first) {
  // The least price above 0 says how small a hair must be to decide between trees of one price only.
  double least = 1e300;
  for (const double price : prices) {
    if (price > 0) least = std::min(least, price);
  }
  bool any = false;
  std::vector<double> lengths(spread_.arcs().size());
  for (auto& [gathering, trees] : cheapest_) {
    // A hair for every arc: of trees that cost nothing the one with fewest.
    for (uint32_t a = 0; a < lengths.size(); ++a) {
      lengths[a] = prices[price_of(a)] + least * 1e-7 * mean_ / static_cast<double>(spread_.bandwidths()[a]);
    }
    // The cheapest tree is a Steiner tree by prices.
    trees.set_lengths(lengths);
    for (const uint32_t root : roots_) {
      if (!is_free_ && collective_.weights()[root] == 0) continue;
      spread_.tell_observer();
      SteinerTrees::Tree tree = trees.find(root);
      const double size = static_cast<double>(classes_.vertex_size(classes_.of_vertex(root)));
      // All roots of the class have images of the tree. Together they cross each class of links so often.
      std::map<uint32_t, double> uses;
      double cost = 0;
      for (const std::vector<uint32_t>& path : tree.paths) {
        for (const uint32_t a : path) {
          uses[price_of(a)] += size * (is_mirrored_ ? 2 : 1);
          cost += prices[price_of(a)] * size * (is_mirrored_ ? 2 : 1);
        }
      }
      // A tree that costs as much as the known ones cannot raise the throughput.
      const int column = tree_price_.at({gathering, root});
      if (!is_first && cost >= value(column) * (1 - kSame)) continue;
      any = true;
      // Its row: the price of a tree is no more than that of the links which this one crosses.
      std::vector<LinearProgram::Term> terms{{.column = column, .factor = -1}};
      for (const auto& [price, times] : uses) terms.push_back({.column = price_column_[price], .factor = times});
      const int row = program_.add_row(terms, 0, LinearProgram::kInfinity);
      known_.push_back(
          {.gathering = gathering, .root = root, .row = static_cast<size_t>(row), .tree = std::move(tree)});
      ++rows_;
    }
  }
  return any;
}

// Whole units in proportion to the rates.
std::optional<std::vector<int64_t>> PricedTreePacker::units_of_trees(std::vector<double> rates) const {
  const double most = *std::ranges::max_element(rates);
  if (!(most > 0)) return std::nullopt;
  // Rounded down, so that no link carries more than it can.
  const auto rounded = [&](double times) {
    std::vector<int64_t> units;
    for (const double rate : rates) units.push_back(static_cast<int64_t>(std::floor(rate / most * times + kNear)));
    return units;
  };
  // A common denominator of all rates, where there is a small one.
  int64_t common = 1;
  for (const double rate : rates) {
    const double scaled = rate / most * static_cast<double>(common);
    const Fraction near = nearest_fraction(scaled, kMostDenominator);
    const int128 next = near.denominator() * common;
    if (next > kMostCommon || std::abs(near.to_double() - scaled) > kNear * std::max(1.0, scaled)) {
      return rounded(kFineness);
    }
    common = static_cast<int64_t>(next);
  }
  std::vector<int64_t> units;
  for (const double rate : rates) units.push_back(std::llround(rate / most * static_cast<double>(common)));
  return units;
}

// Takes away from the last trees until every root has as much in both directions, and in proportion to its weight.
void PricedTreePacker::level(std::vector<int64_t>& units) const {
  std::map<std::pair<bool, uint32_t>, int64_t> sums;
  for (size_t i = 0; i < known_.size(); ++i) sums[{known_[i].gathering, known_[i].root}] += units[i];
  // Each root can have as much as the direction that has less.
  std::map<uint32_t, int64_t> wanted;
  int64_t per_weight = INT64_MAX;
  for (const uint32_t root : roots_) {
    wanted[root] = INT64_MAX;
    for (const auto& [gathering, trees] : cheapest_) wanted[root] = std::min(wanted[root], sums[{gathering, root}]);
    const auto weight = static_cast<int64_t>(collective_.weights()[root]);
    if (!is_free_ && weight > 0) per_weight = std::min(per_weight, wanted[root] / weight);
  }
  for (const uint32_t root : roots_) {
    if (!is_free_) wanted[root] = per_weight * static_cast<int64_t>(collective_.weights()[root]);
  }
  for (size_t i = known_.size(); i-- > 0;) {
    int64_t& sum = sums[{known_[i].gathering, known_[i].root}];
    const int64_t taken = std::min(units[i], sum - wanted[known_[i].root]);
    units[i] -= taken;
    sum -= taken;
  }
}

std::unique_ptr<TreeSource> PricedTreePacker::source(bool gathering, std::span<const int64_t> units) const {
  const Network& of = network(gathering);
  Packing packing;
  for (size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].gathering != gathering || units[i] == 0) continue;
    PackedTree tree{.root = known_[i].root, .units = units[i], .height = 0, .paths = {}};
    // Heights count participants alone.
    std::vector<uint32_t> depth(of.vertex_count(), 0);
    for (const std::vector<uint32_t>& path : known_[i].tree.paths) {
      const uint32_t tail = of.arcs()[path.front()].tail, head = of.arcs()[path.back()].head;
      depth[head] = depth[tail] + (of.is_participant(head) ? 1 : 0);
      tree.height = std::max(tree.height, depth[head]);
      tree.paths.push_back(packing.paths.intern(path));
    }
    packing.trees.push_back(std::move(tree));
  }
  std::ranges::stable_sort(packing.trees, {}, &PackedTree::root);
  // Trees of one root for each class are turned to the others by the symmetry.
  if (roots_.size() == of.participant_count()) return hand_over(std::move(packing));
  const std::vector<int64_t> any_capacity(of.arcs().size(), 0), any_supply(of.terminal_count(), 0);
  auto symmetry = Symmetry::of(of, fabric_, any_capacity, any_supply);
  CHECK(symmetry.has_value()) << "classes of ranks without a symmetry";
  return RotatedTrees::make(of, std::move(*symmetry), packing);
}

std::optional<PricedTrees> PricedTreePacker::trees() {
  if (solution_.duals.empty()) return std::nullopt;
  std::vector<double> rates;
  for (const Known& known : known_) {
    // The multiplier of a tree's row is how much of it is taken. Trees of the last round have none.
    rates.push_back(known.row < solution_.duals.size() ? std::max(0.0, solution_.duals[known.row]) : 0);
  }
  // Rates become whole units, then each root gets as much in both directions.
  auto units = units_of_trees(std::move(rates));
  if (!units) return std::nullopt;
  level(*units);
  int64_t common = 0;
  for (const int64_t of : *units) common = std::gcd(common, of);
  if (common == 0) return std::nullopt;
  for (int64_t& of : *units) of /= common;
  PricedTrees result;
  for (const auto& [gathering, trees] : cheapest_) {
    auto made = source(gathering, *units);
    if (!made) return std::nullopt;
    (gathering ? result.gather : result.spread) = std::move(made);
  }
  return result;
}

}  // namespace

std::optional<PricedTrees> pack_priced_trees(const Fabric& fabric, const Collective& collective, const Fraction& enough,
                                             PlanObserver* observer) {
  PricedTreePacker packer(fabric, collective, observer);
  if (packer.is_too_large()) return std::nullopt;
  packer.search(1 / enough.to_double() / packer.unit());
  return packer.trees();
}

}  // namespace banyan::plan
