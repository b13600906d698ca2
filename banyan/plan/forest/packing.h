// Packs spanning trees: supply(t) trees rooted at each terminal t, together within the capacities.
//
// Method. Trees are grown whole (tree_grower.h), with as much multiplicity as fits, guided by the cuts known to bind
// (cut_ledger.h). The check of the cut condition is exact (cut_condition.h) and costs as much as some trees, so it
// comes after several of them: if what is owed could no longer be packed, the violated cut is learnt, and the last
// trees that overdraw it are taken back, in part or whole, and grown again. If no tree can be added like that, one is
// grown with care: it is checked alone, and one that gets stuck is itself a growing batch, so that the check on it
// yields the cut that it should not have overdrawn. If that goes on for long, one tree is grown with a check at every
// step, which cannot fail (sure_tree.h). So the guess is cheap, the check is exact, and no guess is trusted. Compared
// with the published construction (arXiv 2402.06787, section 5.3-5.4) there are no split-off graphs and at most a few
// checks per tree instead of several flows per edge of every tree; and as every tree grows breadth first, heights stay
// near the fabric's own diameter.
//
// Cost, with n terminals and m arcs: a tree is grown in O(m log m) and checked in n flows, of which most end within a
// few hops. 1,000 ranks without any symmetry need some 1,000 to 2,000 growths and 50 to 500 checks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// Paths of arcs, each stored once.
class PathTable {
 public:
  uint32_t intern(std::span<const uint32_t> arcs);
  // The same for a path that is known to be new; where all are, no index of them is built.
  uint32_t append(std::span<const uint32_t> arcs);
  // The number of a path that was interned; nothing for any other.
  std::optional<uint32_t> find(std::span<const uint32_t> arcs) const;
  size_t size() const { return start_.size() - 1; }
  size_t arcs() const { return arcs_.size(); }  // of all paths together
  std::span<const uint32_t> path(uint32_t id) const {
    return std::span(arcs_).subspan(start_[id], start_[id + 1] - start_[id]);
  }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;
  size_t find_slot(std::span<const uint32_t> arcs) const;  // where its number is, or where it belongs
  void widen();

  // Numbers of paths by hash, a power of two of them, at most half full; of the first indexed_ paths.
  std::vector<uint32_t> slots_;
  size_t indexed_ = 0;
  std::vector<uint32_t> arcs_;
  std::vector<uint64_t> start_{0};
};

class GrowingTree;

struct PackedTree {
  uint32_t root = 0;
  int64_t units = 0;
  uint32_t height = 0;
  std::vector<uint32_t> paths = {};  // one per edge, parents before children
};

struct Packing {
  // Adds the tree as it has grown. Its paths that are there already are not added again.
  void add(const GrowingTree& grown, int64_t units);

  PathTable paths;
  std::vector<PackedTree> trees;
  uint64_t checks = 0;  // of the cut condition; how hard it was
  uint64_t growths = 0;
  uint64_t sure_trees = 0;  // grown with a check at every step, since guesses failed
};

struct PackingOptions {
  std::optional<uint32_t> max_height = {};  // absent: low, but never at the price of not finding a packing
  std::function<void(double fraction_done)> progress = {};
  bool lower = true;  // whether tall trees are taken out at the end and grown anew
  // True: lowering takes many trees at a time from the start, and goes on even if there seems to be little hope.
  bool patient = false;
  std::function<void()> lowering_begins = {};  // called before that; progress is then counted anew
  bool guess = true;                           // whether trees may be guessed before they are grown surely
};

// The least height that trees of this network can have: the largest distance between terminals, in terminal-to-terminal
// hops.
uint32_t least_height(const Network& network);
// The same for trees of this root: the distance to the farthest terminal.
uint32_t least_height_from(const Network& network, uint32_t root);

// Trees of this height are not worth lowering further: at twice the least, pipelines of slices hide the rest.
inline uint32_t low_enough(uint32_t least) { return std::max(2 * least, 2u); }

// `capacity` by arc and `supply` by terminal must satisfy the cut condition, and switches must be balanced. Then the
// result exists, except under max_height, where nothing is returned when this search finds none.
std::optional<Packing> pack_trees(const Network& network, std::span<const int64_t> capacity,
                                  std::span<const int64_t> supply, const PackingOptions& options = {});

}  // namespace banyan::plan
