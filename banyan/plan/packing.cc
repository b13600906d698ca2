#include "banyan/plan/packing.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "banyan/base/check.h"
#include "banyan/plan/cut_condition.h"
#include "banyan/plan/cut_ledger.h"
#include "banyan/plan/sure_tree.h"
#include "banyan/plan/tree_grower.h"

namespace banyan::plan {
namespace {

// How often a tree is grown again with what its failures taught before it is grown surely.
constexpr int kMaxRegrowths = 200;
// How often a multiplicity is tried again before it is halved.
constexpr int kTriesPerMultiplicity = 4;
// Lowering stops after this many failures in a row, after this much work in checks and growths times graph size, or
// after so many arcs have been looked at (about a second).
constexpr int kLoweringFailures = 800;
constexpr uint64_t kLoweringWork = 8'000'000;
constexpr uint64_t kLoweringArcs = 300'000'000;

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
        grower_(network, left_, initial_, supply_, ledger_),
        owed_(std::accumulate(supply.begin(), supply.end(), int64_t{0})) {}

  std::optional<Packing> pack() {
    const int64_t total = owed_;
    check_start();
    for (uint32_t root = 0; root < network_.terminal_count(); ++root) {
      while (supply_[root] > 0) {
        if (!options_.guess || !add_guessed_tree(root)) add_sure_tree(root);
        if (options_.progress) options_.progress(1 - static_cast<double>(owed_) / static_cast<double>(total));
      }
    }
    if (options_.lower || options_.max_height) lower();
    if (options_.max_height && max_height() > *options_.max_height) return std::nullopt;
    std::stable_sort(packing_.trees.begin(), packing_.trees.end(),
                     [](const PackedTree& a, const PackedTree& b) { return a.root < b.root; });
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
    for (uint32_t a = 0; a < trial_.size(); ++a) trial_[a] -= units * int64_t{grower_.arc_uses()[a]};
  }

  // Grows and commits one tree of `root`, of as many units as it can; false when many tries have taught too little.
  bool add_guessed_tree(uint32_t root) {
    int64_t units = supply_[root];
    int tries = 0;
    for (int growths = 0; growths <= kMaxRegrowths; ++growths) {
      ++packing_.growths;
      const bool complete = grower_.grow(root, units, {});
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

  void add_sure_tree(uint32_t root) {
    const SureTree sure = grow_surely(network_, left_, supply_, root);
    packing_.checks += sure.checks;
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
  // meets.
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
          overdraft += grower_.arc_uses()[a];
      }
      const int64_t room = slack(*violated);
      CHECK(overdraft > 0 && room >= 0 && room < int128{units} * overdraft)
          << "overdraft " << overdraft << " room " << room << " units " << units;
      ledger_.learn(*violated, room, grower_.arc_uses(), grower_.members());
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
        check(trial_, supply, CutCondition::State::Batch{.members = grower_.members(), .units = units});
    if (!violated) return false;
    CHECK(ledger_.learn(*violated, slack(*violated), grower_.arc_uses(), grower_.members()))
        << "a known cut was overdrawn";
    return true;
  }

  void commit(uint32_t root, int64_t units) {
    PackedTree tree{.root = root, .units = units, .height = grower_.height()};
    tree.paths.reserve(grower_.edges().size());
    own_work_ += left_.size();
    for (const TreeGrower::Edge& edge : grower_.edges()) {
      tree.paths.push_back(packing_.paths.intern(grower_.path_of(edge)));
    }
    packing_.trees.push_back(std::move(tree));
    ledger_.commit(units);
    for (uint32_t a = 0; a < left_.size(); ++a) left_[a] -= units * int64_t{grower_.arc_uses()[a]};
    supply_[root] -= units;
    owed_ -= units;
  }

  // The last trees to be grown had to live with what was left, so they are the tallest. Takes one of the tallest and
  // some others out, low ones rather, for they can afford to grow, and grows all of them anew below that height, the
  // tall one first; puts them back as they were when that fails. The cut condition holds all along, so throughput is
  // never at risk. Work is counted, not timed: same input, same trees.
  void lower() {
    const uint32_t least = least_height(network_), aim = options_.max_height.value_or(low_enough(least));
    if (max_height() <= aim) return;
    if (options_.lowering_begins) options_.lowering_begins();
    const uint64_t allowed = kLoweringWork / (network_.arcs().size() + network_.vertex_count());
    const uint64_t spent = packing_.checks + packing_.growths;
    std::mt19937_64 random(1);
    const uint64_t begun = work();
    for (int failures = 0; failures < kLoweringFailures && packing_.checks + packing_.growths < spent + allowed;) {
      const uint32_t height = max_height();
      const uint64_t done = work() - begun;
      if (height <= aim || done > kLoweringArcs) return;
      if (options_.progress) options_.progress(static_cast<double>(done) / static_cast<double>(kLoweringArcs));
      failures = lower_one(height, random) ? 0 : failures + 1;
    }
  }

  uint64_t work() const { return own_work_ + grower_.work() + condition_.work(); }

  uint32_t max_height() const {
    uint32_t height = 0;
    for (const PackedTree& tree : packing_.trees) height = std::max(height, tree.height);
    return height;
  }

  bool lower_one(uint32_t height, std::mt19937_64& random) {
    std::vector<PackedTree>& trees = packing_.trees;
    // Move the chosen ones to the end: others by a random shuffle of a few, then one of the tallest.
    const size_t others = std::min(trees.size() - 1, 2 + random() % (1 + trees.size() / 4));
    std::vector<size_t> tallest;
    for (size_t i = 0; i < trees.size(); ++i) {
      if (trees[i].height == height) tallest.push_back(i);
    }
    std::swap(trees[tallest[random() % tallest.size()]], trees.back());
    std::vector<uint8_t> rivals = find_rivals(trees.back().root);
    for (size_t i = 0; i < others; ++i) {
      const size_t pool = trees.size() - 1 - i, a = random() % pool, b = random() % pool;
      const bool first = rivals[a] != rivals[b] ? rivals[a] : trees[a].height <= trees[b].height;
      std::swap(rivals[first ? a : b], rivals[pool - 1]);
      std::swap(trees[first ? a : b], trees[pool - 1]);
    }
    std::vector<PackedTree> taken(std::make_move_iterator(trees.end() - static_cast<std::ptrdiff_t>(others) - 1),
                                  std::make_move_iterator(trees.end()));
    trees.resize(trees.size() - others - 1);
    std::stable_sort(taken.begin(), taken.end(),
                     [](const PackedTree& a, const PackedTree& b) { return a.height > b.height; });
    const std::vector<int64_t> before = ledger_.slacks();
    for (const PackedTree& tree : taken) account(tree, -1);
    ledger_.recount([&](const VertexSet& cut) { return slack(cut); });
    const size_t kept = trees.size();
    bool done = true;
    for (const PackedTree& tree : taken) {
      const int64_t owed_after = supply_[tree.root] - tree.units;
      while (done && supply_[tree.root] > owed_after) done = add_tree_unchecked(tree.root, height - 1);
    }
    if (done) return true;
    const auto overdrawn = check(left_, supply_);
    for (size_t i = kept; i < trees.size(); ++i) account(trees[i], -1);
    trees.resize(kept);
    for (PackedTree& tree : taken) {
      account(tree, 1);
      trees.push_back(std::move(tree));
    }
    ledger_.restore_slacks(before);
    if (overdrawn && !ledger_.knows(*overdrawn)) ledger_.learn(*overdrawn, slack(*overdrawn));
    return false;
  }

  // Which trees of other roots crowd this root: they cross an arc out of it that has nothing left.
  std::vector<uint8_t> find_rivals(uint32_t root) {
    std::vector<uint8_t> crowded(left_.size(), 0), rivals;
    for (const uint32_t a : network_.out_arcs(root)) crowded[a] = left_[a] == 0;
    for (const PackedTree& tree : packing_.trees) {
      own_work_ += tree.paths.size();
      const bool crosses = tree.root != root && std::any_of(tree.paths.begin(), tree.paths.end(), [&](uint32_t id) {
                             const std::span path = packing_.paths.path(id);
                             return std::any_of(path.begin(), path.end(), [&](uint32_t a) { return crowded[a] != 0; });
                           });
      rivals.push_back(crosses);
    }
    return rivals;
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
  uint64_t own_work_ = 0;  // in arcs looked at, beside the grower's and the checks'
  Packing packing_;
};

}  // namespace

uint32_t least_height(const Network& network) {
  uint32_t least = 0;
  for (uint32_t root = 0; root < network.terminal_count(); ++root) {
    std::vector<uint32_t> hops(network.vertex_count(), UINT32_MAX);
    std::vector<std::vector<uint32_t>> levels{{root}, {}};
    hops[root] = 0;
    for (uint32_t level = 0; !levels[level].empty(); ++level) {
      levels.emplace_back();
      for (size_t i = 0; i < levels[level].size(); ++i) {
        for (const uint32_t a : network.out_arcs(levels[level][i])) {
          const uint32_t next = network.arcs()[a].head;
          if (hops[next] != UINT32_MAX) continue;
          // A switch belongs to the hop that is under way; a terminal ends it.
          hops[next] = level + 1;
          levels[network.is_terminal(next) ? level + 1 : level].push_back(next);
        }
      }
    }
    for (uint32_t t = 0; t < network.terminal_count(); ++t) least = std::max(least, hops[t]);
  }
  return least;
}

uint32_t PathTable::intern(std::span<const uint32_t> arcs) {
  const auto [found, inserted] =
      ids_.try_emplace(std::u32string(arcs.begin(), arcs.end()), static_cast<uint32_t>(size()));
  if (inserted) {
    arcs_.insert(arcs_.end(), arcs.begin(), arcs.end());
    start_.push_back(arcs_.size());
  }
  return found->second;
}

std::optional<Packing> pack_trees(const Network& network, std::span<const int64_t> capacity,
                                  std::span<const int64_t> supply, const PackingOptions& options) {
  return TreePacker(network, capacity, supply, options).pack();
}

}  // namespace banyan::plan
