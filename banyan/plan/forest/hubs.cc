#include "banyan/plan/forest/hubs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "banyan/plan/forest/cut_ledger.h"
#include "banyan/plan/forest/rotation.h"
#include "banyan/plan/forest/tree_grower.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/root_flow.h"

namespace banyan::plan {
namespace {

// Attempts, and arcs looked at, before a manner of growing is given up: about a tenth of a second.
constexpr int kHubAttempts = 16;
constexpr uint64_t kGrowthWork = 20'000'000;
// A way's trees have at least this part of its units each.
constexpr int64_t kWaySplits = 64;
constexpr uint32_t kNotReached = UINT32_MAX;
constexpr uint32_t kNotTaken = UINT32_MAX;
constexpr uint32_t kGrown = uint32_t{1} << 31;  // marks numbers of paths that are no stem's

// A packing whose trees follow those of an allgather: paths that they have in common stand in it once.
class PackingAlong {
 public:
  PackingAlong() = default;
  explicit PackingAlong(const Packing& allgather) : known_(&allgather.paths), number_(known_->size(), kNotTaken) {}

  // The number of a path of the allgather's.
  uint32_t number_of(uint32_t id) {
    if (number_[id] == kNotTaken) number_[id] = packing.paths.append(known_->path(id));
    return number_[id];
  }
  // The number, until finish(), of a path that grew.
  uint32_t add_grown(GrowingTree::Path path) { return grown_.intern(path) | kGrown; }

  // Numbers the grown paths after the others, or as them where they are the same.
  Packing finish() && {
    // A grown path that the allgather's trees have too gets their number; the others get numbers of their own.
    std::vector<uint32_t> number(grown_.size(), kNotTaken);
    for (uint32_t id = 0; id < packing.paths.size(); ++id) {
      if (const auto same = grown_.find(packing.paths.path(id))) number[*same] = id;
    }
    for (uint32_t id = 0; id < grown_.size(); ++id) {
      if (number[id] == kNotTaken) number[id] = packing.paths.append(grown_.path(id));
    }
    for (PackedTree& tree : packing.trees) {
      for (uint32_t& id : tree.paths) id = id & kGrown ? number[id & ~kGrown] : id;
    }
    return std::move(packing);
  }

  Packing packing;

 private:
  const PathTable* known_ = nullptr;  // those of the allgather
  std::vector<uint32_t> number_;      // by path of known_
  PathTable grown_;
};

// One packing: stems (what is kept of the allgather's trees) and ways are booked for all hubs first, so that no tree
// takes what a later one cannot do without; then tree after tree grows from its way and stem over all that is left.
class HubPacker {
 public:
  // `capacity` and `supply` in parts of the problem's units.
  HubPacker(const OneRoot& problem, std::span<const int64_t> capacity, int64_t supply)
      : problem_(problem),
        network_(problem.network),
        root_(problem.root),
        supply_(supply),
        initial_(capacity.begin(), capacity.end()),
        left_(initial_),
        owed_(network_.terminal_count(), 0),
        ledger_(network_),
        grower_(network_, {.left = left_, .initial = initial_, .supply = owed_}, ledger_),
        ways_(network_, capacity, root_),
        is_hub_(network_.terminal_count(), 0),
        depth_(network_.terminal_count()) {
    // Trees must learn the cuts that have nothing to spare before they run into them.
    std::vector<int64_t> supplies(network_.terminal_count(), 0);
    supplies[root_] = supply;
    CutCondition(network_).find_violated({.capacity = initial_, .supply = supplies}, [&](const VertexSet& cut) {
      if (!cut[root_] && std::ranges::count(cut, 1) > 1) ledger_.learn(cut, 0);
    });
  }

  // Trees of `units` for each hub, which follow those that it has in `allgather`. A hub that is left without a tree is
  // served first in the next attempt, and the cut that had nothing left is kept for those who need it.
  std::optional<Packing> pack(std::vector<uint32_t> hubs, std::span<const int64_t> units, const Packing& allgather,
                              const TreeGrower::Limits& limits) {
    limits_ = limits;
    allgather_ = &allgather;
    for (const uint32_t hub : hubs) is_hub_[hub] = 1;
    const uint64_t begun = grower_.work();
    for (int attempt = 0; attempt < kHubAttempts; ++attempt) {
      // Everything is booked anew in each attempt, so that it depends on the order of hubs and on the known cuts alone.
      if (!book_ways(hubs, units)) return std::nullopt;
      const std::optional<uint32_t> failed = grow_all(hubs);
      if (!failed) return std::move(result_).finish();
      if (grower_.work() - begun > kGrowthWork) return std::nullopt;
      // The next attempt must differ: a cut is known now, or the failed hub comes first. If neither is so it would fail
      // again.
      const bool learnt = learn();
      if (hubs.front() == *failed && !learnt) return std::nullopt;
      std::rotate(hubs.begin(), std::ranges::find(hubs, *failed), std::ranges::find(hubs, *failed) + 1);
    }
    return std::nullopt;
  }

 private:
  // Units of a hub, and the allgather's tree that their trees follow, if any. Of that tree its stem is kept: what hangs
  // together with the hub when the root and all who are no hubs are left out.
  struct Share {
    int64_t units = 0;
    const PackedTree* tree = nullptr;
  };

  // Takes what stems and the ways to the hubs need out of the capacity; false when there are no such ways.
  bool book_ways(const std::vector<uint32_t>& hubs, std::span<const int64_t> units) {
    // All capacity is there again, and every hub owes all of its units.
    std::ranges::copy(initial_, left_.begin());
    std::ranges::copy(units, owed_.begin());
    ledger_.recount([&](const VertexSet& cut) { return slack(cut); });
    result_ = PackingAlong(*allgather_);
    done_ = 0;
    shares_.assign(network_.terminal_count(), {});
    // Units follow the hub's own trees of the allgather as far as those have units; the rest has no stem.
    std::vector<int64_t> bare(units.begin(), units.end());  // by hub: without a stem
    for (const PackedTree& tree : allgather_->trees) {
      const int64_t used = std::min(tree.units, bare[tree.root]);
      if (used == 0) continue;
      shares_[tree.root].push_back({.units = used, .tree = &tree});
      bare[tree.root] -= used;
    }
    // Stems are taken out of the capacity first: the ways have to do with what is left.
    for (const uint32_t hub : hubs) {
      if (bare[hub] > 0) shares_[hub].push_back({.units = bare[hub]});
      for (const Share& share : shares_[hub]) {
        find_stem(share);
        book_stem(-share.units);
      }
    }
    // The ways to the hubs are a flow of each hub's units. Nothing promises that it exists.
    ways_ = RootFlow(network_, left_, root_);
    for (const uint32_t hub : hubs) {
      if (ways_.send(hub, units[hub]) > 0) return false;
    }
    for (uint32_t a = 0; a < left_.size(); ++a) left_[a] -= ways_.on(a);
    return true;
  }

  // The hub that is left without a tree, or nothing.
  std::optional<uint32_t> grow_all(const std::vector<uint32_t>& hubs) {
    for (const uint32_t hub : hubs) {
      for (Share& share : shares_[hub]) {
        find_stem(share);
        while (share.units > 0) {
          if (!grow(hub, ways_.take_way(hub, share.units), share)) return hub;
        }
      }
    }
    return std::nullopt;
  }

  // What the capacity into a cut is above what all trees need of it at first.
  int64_t slack(const VertexSet& cut) const {
    int64_t slack = -supply_;
    for (uint32_t a = 0; a < initial_.size(); ++a) {
      if (cut[network_.arcs()[a].head] && !cut[network_.arcs()[a].tail]) slack += initial_[a];
    }
    return slack;
  }

  // The cut into which nothing is left from the tree that got stuck; whether there is one that was not known.
  bool learn() {
    VertexSet cut(network_.vertex_count(), 1);
    std::vector<uint32_t> reached;
    for (uint32_t v = 0; v < network_.terminal_count(); ++v) {
      if (grower_.tree().members()[v]) reached.push_back(v);
    }
    for (const uint32_t v : reached) cut[v] = 0;
    // The cut is all that the tree's members cannot reach over arcs with something left.
    for (size_t i = 0; i < reached.size(); ++i) {
      for (const uint32_t a : network_.out_arcs(reached[i])) {
        const uint32_t head = network_.arcs()[a].head;
        if (left_[a] <= 0 || !cut[head]) continue;
        cut[head] = 0;
        reached.push_back(head);
      }
    }
    if (std::count(cut.begin(), cut.begin() + network_.terminal_count(), 1) == 0) return false;
    return ledger_.learn(cut, slack(cut));
  }

  // Fills stem_ with numbers of paths.
  void find_stem(const Share& share) {
    stem_.clear();
    if (!share.tree) return;
    std::ranges::fill(depth_, kNotReached);
    depth_[share.tree->root] = 0;
    for (const uint32_t id : share.tree->paths) {
      const GrowingTree::Path path = allgather_->paths.path(id);
      const uint32_t from = network_.arcs()[path.front()].tail, to = network_.arcs()[path.back()].head;
      if (depth_[from] == kNotReached || !is_hub_[to]) continue;
      depth_[to] = depth_[from] + 1;
      stem_.push_back(id);
    }
  }

  void book(GrowingTree::Path path, int64_t units) {
    for (const uint32_t a : path) left_[a] += units;
  }
  void book_stem(int64_t units) {
    for (const uint32_t id : stem_) book(allgather_->paths.path(id), units);
  }

  // The units of a way, as trees of the way, the stem without whom the way has passed, and what grows from both.
  bool grow(uint32_t hub, const Way& way, Share& share) {
    // The tree starts with the way to the hub, one edge for each terminal on it.
    start_.clear();
    std::ranges::fill(depth_, kNotReached);
    depth_[root_] = 0;
    for (size_t begin = 0, i = 0; i < way.arcs.size(); ++i) {
      const uint32_t to = network_.arcs()[way.arcs[i]].head;
      if (!network_.is_terminal(to)) continue;
      depth_[to] = 0;
      start_.push_back(std::span(way.arcs).subspan(begin, i + 1 - begin));
      begin = i + 1;
    }
    // Next comes the stem. The stem's edges to ranks that the way has passed are left out.
    started_with_.clear();
    for (const uint32_t id : stem_) {
      const GrowingTree::Path path = allgather_->paths.path(id);
      if (depth_[network_.arcs()[path.back()].head] != kNotReached) continue;
      start_.push_back(path);
      started_with_.push_back(id);
    }
    // The tree gets its own booking back while it grows. If it does not grow, it is booked again and half the units are
    // tried, for which narrower arcs will do.
    for (int64_t left = way.units, units = left; left > 0; units = std::min(units, left)) {
      book_stem(units);
      book(way.arcs, units);
      ++result_.packing.growths;
      if (grower_.grow(root_, units, limits_, start_) &&
          grower_.tree().height() <= limits_.max_height.value_or(UINT32_MAX)) {
        commit(units);
        left -= units;
        share.units -= units;
        owed_[hub] -= units;
        continue;
      }
      book_stem(-units);
      book(way.arcs, -units);
      units /= 2;
      if (units <= way.units / kWaySplits) return false;
    }
    return true;
  }

  // The tree that has grown. Its paths are those of the way, then those of the stem, which have numbers, then others.
  void commit(int64_t units) {
    PackedTree tree{.root = root_, .units = units, .height = grower_.tree().height()};
    tree.paths.reserve(grower_.tree().edges().size());
    const size_t way = start_.size() - started_with_.size();
    for (size_t i = 0; i < grower_.tree().edges().size(); ++i) {
      const GrowingTree::Path path = grower_.tree().path_of(grower_.tree().edges()[i]);
      const bool known = i >= way && i < start_.size();
      tree.paths.push_back(known ? result_.number_of(started_with_[i - way]) : result_.add_grown(path));
      book(path, -units);
    }
    result_.packing.trees.push_back(std::move(tree));
    ledger_.commit(units);
    done_ += units;
    if (problem_.progress) problem_.progress(static_cast<double>(done_) / static_cast<double>(supply_));
  }

  const OneRoot& problem_;
  const Network& network_;
  const uint32_t root_;
  const int64_t supply_;
  const std::vector<int64_t> initial_;
  std::vector<int64_t> left_;  // less what stems and ways of trees to come need
  std::vector<int64_t> owed_;  // by hub
  CutLedger ledger_;
  TreeGrower grower_;
  TreeGrower::Limits limits_;
  const Packing* allgather_ = nullptr;
  std::vector<std::vector<Share>> shares_;  // by hub: of trees to come
  RootFlow ways_;                           // to hubs of trees to come
  std::vector<uint8_t> is_hub_;
  std::vector<uint32_t> depth_;  // scratch, by terminal
  std::vector<uint32_t> stem_;   // of the share at hand: numbers of paths
  // What the tree at hand begins with, and the numbers of those paths that are the stem's; they come last.
  std::vector<GrowingTree::Path> start_;
  std::vector<uint32_t> started_with_;
  PackingAlong result_;
  int64_t done_ = 0;  // units of trees in it
};

}  // namespace

std::optional<OneRootPacking> pack_over_hubs(const OneRoot& problem) {
  const Network& network = problem.network;
  // 1. Who is a hub, for how many units, and into how many parts units are cut for that.
  const VertexSet near = near_side(network, problem.capacity, problem.root, problem.supply);
  std::vector<uint32_t> hubs;
  for (uint32_t t = 0; t < network.terminal_count(); ++t) {
    if (!near[t]) hubs.push_back(t);
  }
  const auto dealt = deal_out(network, problem.capacity, problem.root, hubs, problem.supply, problem.most_units);
  if (!dealt) return std::nullopt;
  std::vector<int64_t> wide(problem.capacity.begin(), problem.capacity.end()), units(network.terminal_count(), 0);
  for (int64_t& c : wide) c *= dealt->parts;
  for (size_t i = 0; i < hubs.size(); ++i) units[hubs[i]] = dealt->units[i];
  // 2. How trees are packed along an allgather: as they come, then lower and lower.
  HubPacker packer(problem, wide, problem.supply * dealt->parts);
  // The root comes to its hubs in a hop, from a near side of several in two; after that the allgather's trees follow.
  const uint32_t hops = std::ranges::count(near, 1) > 1 ? 2 : 1, least = least_height_from(network, problem.root);
  const auto along = [&](const Packing& allgather) -> std::optional<Packing> {
    const uint32_t low = hops + std::max(height_of(allgather), least);
    std::optional<Packing> best;
    for (const auto waits : {TreeGrower::Waits::shorter, TreeGrower::Waits::wider}) {
      TreeGrower::Limits limits{.max_height = problem.max_height, .waits_for = waits};
      if (best) limits.max_height = height_of(*best) - 1;
      // Once all trees stand they are grown again below the height of the tallest, until that fails or they are low.
      while (auto packing = packer.pack(hubs, units, allgather, limits)) {
        best = std::move(packing);
        if (height_of(*best) <= low) return best;
        limits.max_height = height_of(*best) - 1;
      }
    }
    return best;
  };
  // 3. Along the allgather of a symmetric fabric, which costs little; else along none: all grows from the ways.
  const std::vector<int64_t> supplies(network.terminal_count(), std::ranges::max(dealt->units));
  std::optional<Packing> best;
  if (const auto allgather = pack_by_rotation(network, problem.fabric, wide, supplies))
    best = along(collect(*allgather));
  if (!best) best = along({});
  if (!best) return std::nullopt;
  return OneRootPacking{.packing = std::move(*best), .parts = dealt->parts};
}

}  // namespace banyan::plan
