#include "banyan/plan/forest/packing.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>

#include "banyan/base/check.h"
#include "banyan/plan/forest/cut_ledger.h"
#include "banyan/plan/forest/sure_tree.h"
#include "banyan/plan/forest/tree_grower.h"
#include "banyan/plan/graph/cut_condition.h"

namespace banyan::plan {
namespace {

// How often a tree is grown again with what its failures taught before it is grown surely.
constexpr int kMaxRegrowths = 200;
// How often a multiplicity is tried again before it is halved.
constexpr int kTriesPerMultiplicity = 4;
// The most trees that are grown before they are checked together.
constexpr size_t kMaxBatch = 64;
// Lowering takes out two or three trees at a time beside the tallest; after every so many failures in a row it may take
// one more, up to kMaxRegrown more. Few cost little and succeed oftener, but now and then it takes many.
constexpr size_t kMaxRegrown = 8;
constexpr int kFailuresPerTree = 40;
// Failures between those after which a cut is looked for, at most.
constexpr int kLongestPause = 7;
// Lowering stops after this many failures in a row, or after this many arcs have been looked at: a tenth of a second to
// half a second.
constexpr int kLoweringFailures = 600;
constexpr uint64_t kLeastLoweringArcs = 20'000'000, kMostLoweringArcs = 100'000'000;
// Where the rest of the tallest trees would take longer than there is left, as far as these many arcs tell, it stops.
constexpr uint64_t kPaceArcs = 5'000'000;

// The invariant: between two steps of pack(), what is left and owed satisfies the cut condition, so that the rest can
// be packed (Bérczi, Frank 2010; Bang-Jensen, Frank, Jackson 1995 for the switches). Every step makes owed_ smaller,
// and the last resort always can; so pack() ends with a complete packing.
class TreePacker {
 public:
  TreePacker(const Network& network, std::span<const int64_t> capacity, std::span<const int64_t> supply,
             const PackingOptions& options)
      : network_(network),
        options_(options),
        initial_(capacity.begin(), capacity.end()),
        left_(initial_),
        supply_(supply.begin(), supply.end()),
        condition_(network),
        ledger_(network),
        grower_(network, {.left = left_, .initial = initial_, .supply = supply_}, ledger_),
        owed_(std::accumulate(supply.begin(), supply.end(), int64_t{0})) {}

  std::optional<Packing> pack() {
    // The invariant holds at the start: check_start() tests it.
    check_start();
    order_roots();
    const int64_t total = owed_;
    while (owed_ > 0) {
      // Cheapest first: several trees and one check; then one tree with a check of its own; then the tree that cannot
      // fail.
      if (!options_.guess) {
        add_sure_tree(next_root());
      } else if (!add_trees_unchecked()) {
        const uint32_t root = next_root();
        if (!add_guessed_tree(root)) add_sure_tree(root);
      }
      if (options_.progress) options_.progress(1 - static_cast<double>(owed_) / static_cast<double>(total));
    }
    // The packing is complete and proved. Lowering swaps trees within it.
    if (options_.lower || options_.max_height) lower();
    if (options_.max_height && max_height() > *options_.max_height) return std::nullopt;
    std::ranges::stable_sort(packing_.trees, {}, &PackedTree::root);
    return std::move(packing_);
  }

 private:
  // The cut condition of a state to come.
  std::optional<VertexSet> check(std::span<const int64_t> capacity, std::span<const int64_t> supply,
                                 const std::optional<CutCondition::State::Batch>& batch = {}) {
    ++packing_.checks;
    return condition_.find_violated({.capacity = capacity, .supply = supply, .batch = batch});
  }

  // The first check also teaches the cuts that are tight from the start: the bottleneck and its like. Later ones are
  // learnt when a tree runs into them, which is cheaper than looking for them.
  void check_start() {
    std::vector<VertexSet> tight;
    const auto violated = condition_.find_violated({.capacity = left_, .supply = supply_},
                                                   [&](const VertexSet& cut) { tight.push_back(cut); });
    CHECK(!violated) << "the packing problem violates the cut condition";
    for (const VertexSet& cut : tight) ledger_.learn(cut, slack(cut));
  }

  // Roots are served in strides of the golden section, so that what is left is spread evenly at any time. Neighbours
  // that were served one after the other would leave whole parts of the fabric without.
  void order_roots() {
    const uint32_t terminals = network_.terminal_count();
    uint32_t stride = std::max(1u, static_cast<uint32_t>(0.6180339887 * terminals));
    while (std::gcd(stride, terminals) != 1) ++stride;
    for (uint32_t i = 0, root = 0; i < terminals; ++i, root = (root + stride) % terminals) roots_.push_back(root);
  }

  // The next root that owes trees; some must.
  uint32_t next_root() {
    while (supply_[roots_[at_root_]] == 0) at_root_ = (at_root_ + 1) % roots_.size();
    return roots_[at_root_];
  }

  int64_t slack(const VertexSet& cut) const {
    int64_t slack = -owed_;
    for (uint32_t t = 0; t < network_.terminal_count(); ++t) slack += cut[t] ? supply_[t] : 0;
    for (uint32_t a = 0; a < left_.size(); ++a) {
      if (cut[network_.arcs()[a].head] && !cut[network_.arcs()[a].tail]) slack += left_[a];
    }
    return slack;
  }

  void capacity_without_tree(int64_t units) {
    trial_ = left_;
    for (uint32_t a = 0; a < trial_.size(); ++a) trial_[a] -= units * int64_t{grower_.tree().uses()[a]};
  }

  // Grows trees of several roots with nothing but the known cuts to guide them, and only then checks. Those that the
  // violated cuts cannot bear are taken back. False when no tree was added: then the next root needs more care.
  bool add_trees_unchecked() {
    const size_t verified = packing_.trees.size();
    while (owed_ > 0 && packing_.trees.size() < verified + batch_) {
      const uint32_t root = next_root();
      ++packing_.growths;
      if (!grower_.grow(root, supply_[root], {.detours = true})) break;
      commit(root, supply_[root]);
    }
    if (packing_.trees.size() == verified) return false;
    // The batch grows while checks take nothing back, and shrinks when they do: checks are few where guesses are good.
    const bool all_kept = take_back_overdraft(verified);
    batch_ = all_kept ? std::min(2 * batch_, kMaxBatch) : std::max<size_t>(1, batch_ / 2);
    return packing_.trees.size() > verified;
  }

  // Takes back trees from the end, none of the first `verified`, until the cut condition holds: each cut that turns out
  // to be violated is relieved of the last trees that enter it more often than they must, and learnt. Returns whether
  // nothing was taken back. A packing that is complete needs no check, it is its own proof.
  bool take_back_overdraft(size_t verified) {
    bool all_kept = true;
    while (owed_ > 0) {
      const auto violated = check(left_, supply_);
      if (!violated) break;
      all_kept = false;
      // The latest trees are taken back first, as many units as the cut lacks. The first ones were verified before, so
      // the cut has room again by then.
      int64_t room = slack(*violated);
      for (size_t i = packing_.trees.size(); room < 0 && i > verified; --i) {
        const int64_t overdraft = overdraft_of(packing_.trees[i - 1], *violated);
        if (overdraft <= 0) continue;
        room += overdraft * reduce(i - 1, (-room + overdraft - 1) / overdraft);
      }
      CHECK(room >= 0 && ledger_.learn(*violated, room)) << "a cut was violated before the last trees were grown";
    }
    return all_kept;
  }

  // How often a tree enters a cut beyond what it owes it.
  int64_t overdraft_of(const PackedTree& tree, const VertexSet& cut) const {
    int64_t overdraft = cut[tree.root] ? 0 : -1;
    for (const uint32_t path : tree.paths) {
      for (const uint32_t a : packing_.paths.path(path))
        overdraft += cut[network_.arcs()[a].head] && !cut[network_.arcs()[a].tail];
    }
    return overdraft;
  }

  // Takes `units` of a tree back, or all of it where less than half would be left. Returns how many.
  int64_t reduce(size_t tree, int64_t units) {
    PackedTree& reduced = packing_.trees[tree];
    if (2 * units > reduced.units) units = reduced.units;
    PackedTree part{.root = reduced.root, .units = units, .height = reduced.height, .paths = reduced.paths};
    take_back(part);
    reduced.units -= units;
    if (reduced.units == 0) packing_.trees.erase(packing_.trees.begin() + static_cast<std::ptrdiff_t>(tree));
    return units;
  }

  void take_back(const PackedTree& tree) {
    account(tree, -1);
    arcs_.clear();
    for (const uint32_t path : tree.paths) {
      for (const uint32_t a : packing_.paths.path(path)) arcs_.push_back(a);
    }
    own_work_ += arcs_.size();
    ledger_.take_back(tree.root, tree.units, arcs_);
  }

  // Grows and commits one tree of `root`, of as many units as it can; false when many tries have taught too little.
  //
  // A complete tree is kept with the most units that the cut condition bears, if they are at least half of those it was
  // grown with. Otherwise it has overdrawn a cut, which the ledger knows from then on: the same tree cannot grow again,
  // and the next try is a different one. An incomplete tree either has overdrawn a cut (the theorem on growing batches
  // says that it cannot be completed then) or the grower did not see the way on. After some tries half as many units
  // are tried, as narrower paths will do for them. Every turn of the loop learns a cut, halves the units or counts as a
  // try, and turns are limited.
  bool add_guessed_tree(uint32_t root) {
    // All that the root owes is tried at first: fewer trees of more units are fewer messages.
    int64_t units = supply_[root];
    int tries = 0;
    for (int growths = 0; growths <= kMaxRegrowths; ++growths) {
      ++packing_.growths;
      const bool complete = grower_.grow(root, units, {.detours = true});
      const int64_t kept = complete ? units_to_keep(root, units) : 0;
      if (kept > 0 && (2 * kept >= units || tries >= kTriesPerMultiplicity)) {
        commit(root, kept);
        return true;
      }
      const bool learnt = complete || learn_from_partial_tree(root, units);
      if (learnt && ++tries <= kTriesPerMultiplicity) continue;
      if (units == 1 && !learnt) return false;  // the grower knows too few paths to go on
      if (units > 1) {
        units = std::max<int64_t>(kept, units / 2);
        tries = 0;
      }
    }
    return false;
  }

  // The last resort: a tree that may cost thousands of checks. The ledger did not watch it grow and counts anew.
  void add_sure_tree(uint32_t root) {
    const SureTree sure = grow_surely(network_, left_, supply_, root);
    packing_.checks += sure.checks;
    ++packing_.sure_trees;
    PackedTree tree{.root = root, .units = sure.units, .height = sure.height};
    for (const std::vector<uint32_t>& path : sure.paths) tree.paths.push_back(packing_.paths.intern(path));
    account(tree, 1);
    packing_.trees.push_back(std::move(tree));
    ledger_.recount([&](const VertexSet& cut) { return slack(cut); });
  }

  // The same below a height, with no check but the known cuts: a packing that comes out complete is its own proof.
  bool add_tree_unchecked(uint32_t root, uint32_t max_height) {
    for (int64_t units = supply_[root]; units > 0; units /= 2) {
      ++packing_.growths;
      if (!grower_.grow(root, units, {.max_height = max_height})) continue;
      commit(root, units);
      return true;
    }
    return false;
  }

  // Newton on the multiplicity of the grown tree: the most units that leave the rest packable. Learns each cut it
  // meets. A cut with room r, which the tree enters d times more than it owes it, bears r / d units. Each violated cut
  // bears fewer units than are tried, so the numbers fall; the first that no cut objects to is the most, since the
  // cut before it bears no more.
  int64_t units_to_keep(uint32_t root, int64_t units) {
    std::vector<int64_t> supply = supply_;
    while (units > 0) {
      capacity_without_tree(units);
      supply[root] = supply_[root] - units;
      const auto violated = check(trial_, supply);
      if (!violated) return units;
      int64_t overdraft = (*violated)[root] ? 0 : -1;
      for (uint32_t a = 0; a < trial_.size(); ++a) {
        if ((*violated)[network_.arcs()[a].head] && !(*violated)[network_.arcs()[a].tail])
          overdraft += grower_.tree().uses()[a];
      }
      const int64_t room = slack(*violated);
      CHECK(overdraft > 0 && room >= 0 && room < int128{units} * overdraft)
          << "overdraft " << overdraft << " room " << room << " units " << units;
      ledger_.learn(*violated, room, grower_.tree().uses(), grower_.tree().members());
      units = room / overdraft;
    }
    return 0;
  }

  // Whether the tree as far as it has grown makes the rest unpackable; if so the ledger knows why afterwards.
  bool learn_from_partial_tree(uint32_t root, int64_t units) {
    capacity_without_tree(units);
    std::vector<int64_t> supply = supply_;
    supply[root] -= units;
    const auto violated =
        check(trial_, supply, CutCondition::State::Batch{.members = grower_.tree().members(), .units = units});
    if (!violated) return false;
    CHECK(ledger_.learn(*violated, slack(*violated), grower_.tree().uses(), grower_.tree().members()))
        << "a known cut was overdrawn";
    return true;
  }

  void commit(uint32_t root, int64_t units) {
    own_work_ += left_.size();
    packing_.add(grower_.tree(), units);
    ledger_.commit(units);
    for (uint32_t a = 0; a < left_.size(); ++a) left_[a] -= units * int64_t{grower_.tree().uses()[a]};
    supply_[root] -= units;
    owed_ -= units;
  }

  // The last trees to be grown had to live with what was left, so they are the tallest. Takes one of the tallest and
  // some others out, low ones rather, for they can afford to grow, and grows all of them anew below that height, the
  // tall one first; puts them back as they were when that fails. The cut condition holds all along, so throughput is
  // never at risk. Work is counted, not timed: same input, same trees.
  void lower() {
    const uint32_t aim = options_.max_height.value_or(low_enough(least_height(network_)));
    if (max_height() <= aim) return;
    if (options_.lowering_begins) options_.lowering_begins();
    std::mt19937_64 random(1);
    const uint64_t begun = work(), budget = lowering_budget();
    Pace pace;
    // Each turn costs a few trees. It ends at the aim, with the budget, after kLoweringFailures failures in a row, or
    // where the pace says that the budget will not do.
    for (int failures = 0; failures < kLoweringFailures;) {
      const uint64_t done = work() - begun;
      const uint32_t height = max_height();
      if (height <= aim || done > budget) return;
      const size_t tallest = count_trees(height);
      if (height != pace.height) pace = {.height = height, .begun = done, .tallest = tallest};
      if (!is_patient() && is_hopeless(pace, done, tallest, budget)) return;
      if (options_.progress) options_.progress(static_cast<double>(done) / static_cast<double>(budget));
      failures = lower_one(height, failures, random) ? 0 : failures + 1;
    }
  }

  bool is_patient() const { return options_.patient || (options_.max_height && options_.lower); }

  // In proportion to what growing a tree costs, within limits.
  uint64_t lowering_budget() const {
    if (is_patient()) return kMostLoweringArcs;
    return std::clamp(1000 * uint64_t{network_.terminal_count()} * left_.size(), kLeastLoweringArcs, kMostLoweringArcs);
  }

  // Since when trees of this height are the tallest, in work done, and how many there were of them then.
  struct Pace {
    uint32_t height = 0;
    uint64_t begun = 0;
    size_t tallest = 0;
  };
  static bool is_hopeless(const Pace& pace, uint64_t done, size_t tallest, uint64_t budget) {
    const uint64_t spent = done - pace.begun, lowered = pace.tallest - tallest;
    return spent > kPaceArcs && spent * tallest > (budget - done) * (lowered + 1);
  }

  size_t count_trees(uint32_t height) const {
    return static_cast<size_t>(std::ranges::count(packing_.trees, height, &PackedTree::height));
  }

  uint64_t work() const { return own_work_ + grower_.work() + condition_.work() + ledger_.work(); }

  uint32_t max_height() const {
    uint32_t height = 0;
    for (const PackedTree& tree : packing_.trees) height = std::max(height, tree.height);
    return height;
  }

  // One attempt: true when one of the tallest trees and up to kMaxRegrown others stand anew, all below `height`. They
  // were grown by the known cuts only; that all of them are complete is proof enough, since nothing more is owed then
  // than before. After a failure, a cut that the attempt has overdrawn is learnt, so that the next ones avoid it.
  bool lower_one(uint32_t height, int failures, std::mt19937_64& random) {
    std::vector<PackedTree>& trees = packing_.trees;
    // Move the chosen ones to the end: others by a random shuffle of a few, then one of the tallest.
    const size_t bold = options_.patient ? kMaxRegrown : 1 + static_cast<size_t>(failures / kFailuresPerTree);
    const size_t more = std::min({trees.size() / 4, kMaxRegrown, bold});
    const size_t others = std::min(trees.size() - 1, 2 + random() % (1 + more));
    std::vector<size_t> tallest;
    for (size_t i = 0; i < trees.size(); ++i) {
      if (trees[i].height == height) tallest.push_back(i);
    }
    std::swap(trees[tallest[random() % tallest.size()]], trees.back());
    const std::vector<uint8_t> crowded = find_crowded_arcs(trees.back().root);
    for (size_t i = 0; i < others; ++i) {
      const size_t pool = trees.size() - 1 - i, a = random() % pool, b = random() % pool;
      const bool rival = is_rival(trees[a], trees.back().root, crowded),
                 other = is_rival(trees[b], trees.back().root, crowded);
      const bool first = rival != other ? rival : trees[a].height <= trees[b].height;
      std::swap(trees[first ? a : b], trees[pool - 1]);
    }
    std::vector<PackedTree> taken(std::make_move_iterator(trees.end() - static_cast<std::ptrdiff_t>(others) - 1),
                                  std::make_move_iterator(trees.end()));
    trees.resize(trees.size() - others - 1);
    std::ranges::stable_sort(taken, std::greater(), &PackedTree::height);
    // All chosen trees are taken out first, so that the tall one has room; it then grows first.
    const std::vector<int64_t> before = ledger_.slacks();
    for (const PackedTree& tree : taken) take_back(tree);
    const size_t kept = trees.size();
    bool done = true;
    for (const PackedTree& tree : taken) {
      const int64_t owed_after = supply_[tree.root] - tree.units;
      while (done && supply_[tree.root] > owed_after) done = add_tree_unchecked(tree.root, height - 1);
    }
    if (done) return true;
    // A check costs as much as some trees. Where the last ones taught nothing, some failures go by without.
    const bool looks = failures_unseen_++ >= pause_;
    const auto overdrawn = looks ? check(left_, supply_) : std::nullopt;
    for (size_t i = kept; i < trees.size(); ++i) account(trees[i], -1);
    trees.resize(kept);
    for (PackedTree& tree : taken) {
      account(tree, 1);
      trees.push_back(std::move(tree));
    }
    ledger_.restore_slacks(before);
    if (!looks) return false;
    failures_unseen_ = 0;
    const bool learnt = overdrawn && ledger_.learn(*overdrawn, slack(*overdrawn));
    pause_ = learnt ? 0 : std::min(2 * pause_ + 1, kLongestPause);
    return false;
  }

  // The arcs out of a root that have nothing left. Trees of other roots that cross one are its rivals.
  std::vector<uint8_t> find_crowded_arcs(uint32_t root) const {
    std::vector<uint8_t> crowded(left_.size(), 0);
    for (const uint32_t a : network_.out_arcs(root)) crowded[a] = left_[a] == 0;
    return crowded;
  }

  bool is_rival(const PackedTree& tree, uint32_t root, const std::vector<uint8_t>& crowded) {
    own_work_ += tree.paths.size();
    return tree.root != root && std::ranges::any_of(tree.paths, [&](uint32_t id) {
             return std::ranges::any_of(packing_.paths.path(id), [&](uint32_t a) { return crowded[a] != 0; });
           });
  }

  // Books a whole tree in (sign 1) or out (-1) of what is left and owed.
  void account(const PackedTree& tree, int64_t sign) {
    for (const uint32_t path : tree.paths) {
      for (const uint32_t a : packing_.paths.path(path)) left_[a] -= sign * tree.units;
    }
    supply_[tree.root] -= sign * tree.units;
    owed_ -= sign * tree.units;
  }

  const Network& network_;
  const PackingOptions& options_;
  const std::vector<int64_t> initial_;
  std::vector<int64_t> left_, supply_, trial_;
  CutCondition condition_;
  CutLedger ledger_;
  TreeGrower grower_;
  int64_t owed_;
  std::vector<uint32_t> roots_, arcs_;  // roots_ in the order in which they are served
  size_t at_root_ = 0, batch_ = 1;
  int pause_ = 0, failures_unseen_ = 0;  // of lower_one(), since the last check of one
  uint64_t own_work_ = 0;                // in arcs looked at, beside the grower's and the checks'
  Packing packing_;
};

}  // namespace

uint32_t least_height_from(const Network& network, uint32_t root) {
  std::vector<bool> is_reached(network.vertex_count(), false);
  std::vector<std::vector<uint32_t>> levels{{root}};
  is_reached[root] = true;
  for (uint32_t level = 0;; ++level) {
    levels.emplace_back();
    for (size_t i = 0; i < levels[level].size(); ++i) {
      for (const uint32_t a : network.out_arcs(levels[level][i])) {
        const uint32_t next = network.arcs()[a].head;
        if (is_reached[next]) continue;
        is_reached[next] = true;
        // A switch belongs to the hop that is under way; a terminal ends it.
        levels[network.is_terminal(next) ? level + 1 : level].push_back(next);
      }
    }
    if (levels[level + 1].empty()) return level;
  }
}

uint32_t least_height(const Network& network) {
  uint32_t least = 0;
  for (uint32_t root = 0; root < network.terminal_count(); ++root)
    least = std::max(least, least_height_from(network, root));
  return least;
}

void Packing::add(const GrowingTree& grown, int64_t units) {
  PackedTree tree{.root = grown.root(), .units = units, .height = grown.height()};
  tree.paths.reserve(grown.edges().size());
  for (const GrowingTree::Edge& edge : grown.edges()) tree.paths.push_back(paths.intern(grown.path_of(edge)));
  trees.push_back(std::move(tree));
}

uint32_t PathTable::intern(std::span<const uint32_t> arcs) {
  if (indexed_ < size() || 2 * size() >= slots_.size()) widen();
  uint32_t& slot = slots_[find_slot(arcs)];
  if (slot == kEmpty) {
    slot = append(arcs);
    ++indexed_;
  }
  return slot;
}

uint32_t PathTable::append(std::span<const uint32_t> arcs) {
  arcs_.insert(arcs_.end(), arcs.begin(), arcs.end());
  start_.push_back(arcs_.size());
  return static_cast<uint32_t>(size() - 1);
}

std::optional<uint32_t> PathTable::find(std::span<const uint32_t> arcs) const {
  if (slots_.empty()) return std::nullopt;
  const uint32_t id = slots_[find_slot(arcs)];
  return id == kEmpty ? std::nullopt : std::optional(id);
}

size_t PathTable::find_slot(std::span<const uint32_t> arcs) const {
  uint64_t hash = arcs.size();
  for (const uint32_t arc : arcs) hash = (hash ^ arc) * 0x9E3779B97F4A7C15u;
  const size_t last = slots_.size() - 1;
  size_t at = (hash ^ (hash >> 32)) & last;
  while (slots_[at] != kEmpty && !std::ranges::equal(path(slots_[at]), arcs)) at = (at + 1) & last;
  return at;
}

void PathTable::widen() {
  size_t slots = std::max<size_t>(slots_.size(), 1024);
  while (2 * size() >= slots) slots *= 2;
  slots_.assign(slots, kEmpty);
  for (uint32_t id = 0; id < size(); ++id) slots_[find_slot(path(id))] = id;
  indexed_ = size();
}

std::optional<Packing> pack_trees(const Network& network, std::span<const int64_t> capacity,
                                  std::span<const int64_t> supply, const PackingOptions& options) {
  return TreePacker(network, capacity, supply, options).pack();
}

}  // namespace banyan::plan
