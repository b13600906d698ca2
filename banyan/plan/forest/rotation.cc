#include "banyan/plan/forest/rotation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "banyan/plan/forest/cut_ledger.h"
#include "banyan/plan/forest/rotated_trees.h"
#include "banyan/plan/forest/switch_nodes.h"
#include "banyan/plan/forest/symmetry.h"
#include "banyan/plan/forest/tree_grower.h"
#include "banyan/plan/graph/cut_condition.h"

namespace banyan::plan {
namespace {

// How much higher than asked for trees may come out.
constexpr uint32_t kExcess = 2;

// How much of an arc one tree may take: its share of what is left, rounded down where arcs are narrow and up where
// they are wide; or all there is. A tree that reaches far at once over narrow arcs, because there is still room, would
// leave later ones without.
enum class Share { thrifty, even, all };

// A way of growing all trees: which shares are tried, and within what limits.
struct Manner {
  std::vector<Share> shares;
  TreeGrower::Limits limits;
};

// Grows the trees that stand for all others.
class RotatingPacker {
 public:
  RotatingPacker(const Network& network, const Symmetry& symmetry, std::span<const int64_t> capacity,
                 std::span<const int64_t> supply, std::span<const VertexSet> tight)
      : symmetry_(symmetry),
        initial_(capacity.begin(), capacity.end()),
        left_(initial_),
        supply_(supply.begin(), supply.end()),
        nothing_owed_(supply.size(), 0),
        ledger_(network),
        grower_(network, {.left = left_, .initial = initial_, .supply = nothing_owed_}, ledger_, symmetry.classes()) {
    for (const VertexSet& cut : tight) ledger_.learn(cut, 0);
  }

  // One tree for each orbit of trees, or nothing where one does not grow.
  std::optional<Packing> pack(const Manner& manner) {
    for (uint32_t root = 0; root < supply_.size(); ++root) {
      while (supply_[root] > 0) {
        if (!add_tree(root, manner)) return std::nullopt;
      }
    }
    return std::move(packing_);
  }

 private:
  void allot(Share share, int64_t units, std::span<const int64_t> available) {
    // Trees of one orbit grow at once, so what is owed is counted in orbits.
    int64_t owed = 0;
    for (const int64_t supply : supply_) owed += supply;
    const int64_t order = static_cast<int64_t>(symmetry_.order());
    owed = (owed + order - 1) / order;
    const int64_t widest = *std::max_element(initial_.begin(), initial_.end());
    for (size_t a = 0; a < left_.size(); ++a) {
      // The share of this tree: the capacity that is left over the units that are owed, rounded as the share says,
      // times the units of the tree.
      const bool down = share == Share::thrifty && initial_[a] < widest;
      const int64_t edges = available[a] / owed + (!down && available[a] % owed > 0);
      left_[a] = share == Share::all ? available[a] : std::min(available[a], edges * units);
    }
  }

  // One tree for `root`, which takes the capacity that its images for the rest of the orbit need, too.
  bool add_tree(uint32_t root, const Manner& manner) {
    const std::vector<int64_t> available = left_;
    for (int64_t units = supply_[root]; units > 0; units /= 2) {
      for (const Share share : manner.shares) {
        allot(share, units, available);
        ++packing_.growths;
        const bool grown = grower_.grow(root, units, manner.limits);
        left_ = available;
        if (!grown) continue;
        commit(root, units);
        return true;
      }
    }
    return false;
  }

  void commit(uint32_t root, int64_t units) {
    const GrowingTree::ArcClasses& classes = symmetry_.classes();
    for (uint32_t a = 0; a < left_.size(); ++a)
      left_[a] -= units * classes.weight[classes.of[a]] * int64_t{grower_.tree().uses()[classes.of[a]]};
    packing_.add(grower_.tree(), units);
    symmetry_.for_orbit(root, [&](uint32_t image) { supply_[image] -= units; });
  }

  const Symmetry& symmetry_;
  const std::vector<int64_t> initial_;
  std::vector<int64_t> left_, supply_;
  const std::vector<int64_t> nothing_owed_;  // all roots are served at once, so no arc is kept back for later ones
  CutLedger ledger_;
  TreeGrower grower_;
  Packing packing_;
};

// What the paths of the trees need as routes of a schedule.
size_t path_bytes(const TreeSource& trees) {
  const TreeSource::Sizes sizes = trees.sizes();
  return sizes.paths * sizeof(uint32_t) + sizes.path_arcs * sizeof(LinkId);
}

// The largest distance between terminals: from one of each orbit.
uint32_t least_height(const Network& network, const Symmetry& symmetry) {
  uint32_t least = 0;
  for (const uint32_t root : symmetry.representatives()) least = std::max(least, least_height_from(network, root));
  return least;
}

}  // namespace

std::unique_ptr<TreeSource> pack_by_rotation(const Network& network, const Fabric& fabric,
                                             std::span<const int64_t> capacity, std::span<const int64_t> supply,
                                             std::optional<uint32_t> max_height, size_t many_path_bytes) {
  std::optional<Symmetry> symmetry = Symmetry::of(network, fabric, capacity, supply);
  if (!symmetry) return nullptr;
  std::vector<VertexSet> tight;
  CutCondition(network).find_violated({.capacity = capacity, .supply = supply},
                                      [&](const VertexSet& cut) { tight.push_back(cut); });
  // Straight to everybody where there is room for that, as in networks without oversubscription; then every box or leaf
  // entered once and filled from inside; then whatever comes.
  const uint32_t least = least_height(network, *symmetry), low = max_height.value_or(low_enough(least));
  std::vector<Manner> manners{
      {.shares = {Share::all}, .limits = {.max_height = least, .waits_for = TreeGrower::Waits::wider}},
  };
  for (uint32_t height = low; height <= low + (max_height ? 0 : kExcess); ++height) {
    manners.push_back({.shares = {Share::thrifty, Share::even, Share::all}, .limits = {.max_height = height}});
    manners.push_back({.shares = {Share::all}, .limits = {.max_height = height}});
    manners.push_back({.shares = {Share::thrifty, Share::even, Share::all},
                       .limits = {.max_height = height, .waits_for = TreeGrower::Waits::wider}});
  }
  const auto pack = [&](const Manner& manner) -> std::unique_ptr<TreeSource> {
    auto grown = RotatingPacker(network, *symmetry, capacity, supply, tight).pack(manner);
    if (grown && network.terminal_count() > network.participant_count()) {
      grown = without_idle_switches(network, *grown);
    }
    return grown ? RotatedTrees::make(network, *symmetry, *grown) : nullptr;
  };
  // The first manner that packs all trees is taken. If its paths would need too much memory, a manner with fewer paths
  // is tried as well.
  for (const Manner& manner : manners) {
    auto trees = pack(manner);
    if (!trees) continue;
    if (path_bytes(*trees) > many_path_bytes && low > least) {
      auto lean = pack({.shares = {Share::all, Share::even},
                        .limits = {.max_height = least + 1, .waits_for = TreeGrower::Waits::one_switch}});
      if (lean && path_bytes(*lean) < path_bytes(*trees)) return lean;
    }
    return trees;
  }
  return nullptr;
}

}  // namespace banyan::plan
