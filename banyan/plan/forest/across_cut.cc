#include "banyan/plan/forest/across_cut.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/root_flow.h"
#include "banyan/plan/graph/switch_balance.h"

namespace banyan::plan {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int kBalancingRounds = 16;

// One side of the cut as a network of its own.
class Side {
 public:
  Side(const Network& whole, const VertexSet& near, uint8_t which)
      : vertices_(members(near, which)), own_(whole.vertex_count(), kNone), network_(whole, vertices_) {
    for (uint32_t v = 0; v < vertices_.size(); ++v) own_[vertices_[v]] = v;
    for (uint32_t a = 0; a < whole.arcs().size(); ++a) {
      if (own_[whole.arcs()[a].tail] != kNone && own_[whole.arcs()[a].head] != kNone) arcs_.push_back(a);
    }
  }

  const Network& network() const { return network_; }
  uint32_t own(uint32_t vertex) const { return own_[vertex]; }
  uint32_t whole(uint32_t vertex) const { return vertices_[vertex]; }
  std::vector<int64_t> capacity(std::span<const int64_t> whole) const {
    std::vector<int64_t> result;
    for (const uint32_t a : arcs_) result.push_back(whole[a]);
    return result;
  }
  // A path of this side in arcs of the whole.
  std::vector<uint32_t> path(std::span<const uint32_t> arcs) const {
    std::vector<uint32_t> result;
    for (const uint32_t a : arcs) result.push_back(arcs_[a]);
    return result;
  }

 private:
  static std::vector<uint32_t> members(const VertexSet& near, uint8_t which) {
    std::vector<uint32_t> result;
    for (uint32_t v = 0; v < near.size(); ++v) {
      if (near[v] == which) result.push_back(v);
    }
    return result;
  }

  std::vector<uint32_t> vertices_, own_, arcs_;
  Network network_;
};

// Units that leave the near side at `exit`, over the arcs to the root of a far tree.
struct Crossing {
  uint32_t exit = 0, entry = 0;  // terminals of the whole
  std::vector<uint32_t> arcs;    // of the whole
  int64_t units = 0;
};

// A part of the units of a near tree, and the arc over which they leave.
struct NearPart {
  size_t tree = 0;
  uint32_t first_arc = 0;
  int64_t units = 0;
  uint32_t depth = 0;  // of the exit
};

// A part of the units of a crossing, from behind its first arc on, and the far tree that they end in.
struct FarPart {
  size_t crossing = 0, tree = 0;
  int64_t units = 0;
  uint32_t height = 0;  // above the exit
};

int64_t sum(std::span<const int64_t> capacity, std::span<const uint32_t> arcs) {
  int64_t total = 0;
  for (const uint32_t a : arcs) total += capacity[a];
  return total;
}

// Takes from the arcs into a switch what it cannot pass on, or the other way round, from each in proportion.
void balance_evenly(const Network& network, std::vector<int64_t>& capacity) {
  // Each round may upset neighbours again. Rounds are limited: what is still uneven then is left to make_packable().
  bool changed = true;
  for (int round = 0; changed && round < kBalancingRounds; ++round) {
    changed = false;
    for (uint32_t v = network.terminal_count(); v < network.vertex_count(); ++v) {
      const int64_t in = sum(capacity, network.in_arcs(v)), out = sum(capacity, network.out_arcs(v));
      // The larger side shrinks. Rounding errors do not add up: both sums run down together, and the last arc takes the
      // rest.
      int64_t left = std::max(in, out), wanted = std::min(in, out);
      changed |= in != out;
      for (const uint32_t a : in > out ? network.in_arcs(v) : network.out_arcs(v)) {
        const int64_t kept = left > 0 ? static_cast<int64_t>((int128{capacity[a]} * wanted + left / 2) / left) : 0;
        left -= capacity[a];
        capacity[a] = kept;
        wanted -= kept;
      }
    }
  }
}

// Whether trees can be packed, with switches balanced as packing demands.
bool make_packable(const Network& network, std::vector<int64_t>& capacity, const std::vector<int64_t>& supply) {
  const auto holds = [&](std::span<const int64_t> some) {
    return !CutCondition(network).find_violated({.capacity = some, .supply = supply});
  };
  // The even balance is preferred, but only where the cut condition survives it. The rest is taken off arc by arc,
  // within the cut condition; without success there is no packing.
  if (!holds(capacity)) return false;
  std::vector<int64_t> even = capacity;
  balance_evenly(network, even);
  if (holds(even)) capacity = std::move(even);
  return !balance_switches(network, capacity, supply);
}

class Halves {
 public:
  explicit Halves(const OneRoot& problem)
      : problem_(problem),
        cut_(near_side(problem.network, problem.capacity, problem.root, problem.supply)),
        near_(problem.network, cut_, 1),
        far_(problem.network, cut_, 0) {}

  std::optional<OneRootPacking> pack() {
    // Steps 1 to 3 of the header. Each may fail; then there is no result.
    if (!find_crossings() || !pack_far() || !pack_near()) return std::nullopt;
    // Step 4 needs near trees, crossings and far trees in the same parts of a unit.
    make_units_common();
    if (parts_ > problem_.most_units / problem_.supply) return std::nullopt;
    join();
    if (problem_.max_height && height_of(joined_) > *problem_.max_height) return std::nullopt;
    return OneRootPacking{.packing = std::move(joined_), .parts = parts_};
  }

 private:
  const Arc& arc(uint32_t a) const { return problem_.network.arcs()[a]; }

  bool find_crossings() {
    // Every far terminal is an entry: the flow of K units ends there in equal parts if it can.
    std::vector<uint32_t> entries;
    for (uint32_t t = 0; t < problem_.network.terminal_count(); ++t) {
      if (!cut_[t]) entries.push_back(t);
    }
    // Whole units do where the near side spreads them over many exits; the root alone may owe fewer than one for each.
    auto dealt = deal_out(problem_.network, problem_.capacity, problem_.root, entries, problem_.supply,
                          near_.network().terminal_count() > 1 ? problem_.supply : problem_.most_units);
    if (!dealt) return false;
    parts_ = dealt->parts;
    // Capacities from here on are in the parts of a unit that the flow needed.
    left_.assign(problem_.capacity.begin(), problem_.capacity.end());
    for (int64_t& units : left_) units *= parts_;
    // The flow is taken apart into ways. A crossing begins at the last near terminal of its way; what it takes of arcs
    // is not there for near and far trees.
    for (size_t i = 0; i < entries.size(); ++i) {
      for (int64_t units = dealt->units[i]; units > 0; units -= crossings_.back().units) {
        const Way way = dealt->flow.take_way(entries[i], units);
        const auto leaves = std::ranges::find_if(way.arcs, [&](uint32_t a) { return !cut_[arc(a).head]; });
        auto begin = leaves;
        while (!problem_.network.is_terminal(arc(*begin).tail)) --begin;
        crossings_.push_back(
            {.exit = arc(*begin).tail, .entry = entries[i], .arcs = {begin, way.arcs.end()}, .units = way.units});
        for (const uint32_t a : crossings_.back().arcs) left_[a] -= way.units;
      }
    }
    return true;
  }

  bool pack_far() {
    const Network& network = far_.network();
    // Each far terminal owes as many trees as crossings end in it, in what the crossings leave.
    std::vector<int64_t> capacity = far_.capacity(left_);
    std::vector<int64_t> supply(network.terminal_count(), 0);
    for (const Crossing& crossing : crossings_) supply[far_.own(crossing.entry)] += crossing.units;
    if (!make_packable(network, capacity, supply)) return false;
    // A far tree hangs at least one hop below the root, so it has one level less.
    PackingOptions options{.progress = problem_.progress, .patient = true};
    if (problem_.max_height) {
      if (*problem_.max_height < 2) return false;
      options.max_height = *problem_.max_height - 1;
    }
    auto packing = pack_trees(network, capacity, supply, options);
    if (!packing) return false;
    far_trees_ = std::move(*packing);
    return true;
  }

  // The near trees, in parts of their own.
  bool pack_near() {
    const Network& network = near_.network();
    const uint32_t root = near_.own(problem_.root);
    // The root alone is a near side without edges: one tree of all units.
    if (network.terminal_count() == 1) {
      near_trees_.trees.push_back({.root = root, .units = problem_.supply});
      return true;
    }
    // What crossings take of arcs between near switches, in whole units.
    std::vector<int64_t> whole = left_;
    for (int64_t& units : whole) units /= parts_;
    std::vector<int64_t> capacity = near_.capacity(whole);
    std::vector<int64_t> supply(network.terminal_count(), 0);
    supply[root] = problem_.supply;
    if (!make_packable(network, capacity, supply)) return false;
    // The near side is a smaller problem of the same kind, so the low searches are tried first. The recursion ends,
    // since the far side is not empty. If they find nothing, trees that grow one after the other will do.
    if (auto packing = pack_one_root({.network = network,
                                      .fabric = problem_.fabric,
                                      .capacity = capacity,
                                      .root = root,
                                      .supply = problem_.supply,
                                      .most_units = problem_.most_units,
                                      .max_height = problem_.max_height,
                                      .progress = problem_.progress})) {
      near_parts_ = packing->parts;
      near_trees_ = std::move(packing->packing);
      return true;
    }
    auto packing = pack_trees(network, capacity, supply, {.max_height = problem_.max_height});
    if (!packing) return false;
    near_trees_ = std::move(*packing);
    return true;
  }

  void make_units_common() {
    // The far side and the crossings were cut into parts_, the near trees into near_parts_.
    const int64_t common = std::lcm(parts_, near_parts_);
    for (PackedTree& tree : near_trees_.trees) tree.units *= common / near_parts_;
    for (PackedTree& tree : far_trees_.trees) tree.units *= common / parts_;
    for (Crossing& crossing : crossings_) crossing.units *= common / parts_;
    parts_ = common;
  }

  // Crossings that meet in a vertex behind their first arcs can go on in each other's stead. So there, whoever comes
  // from deepest goes on with the lowest far tree.
  void join() {
    find_depths();
    // At each meeting both lists hold the same units: those of the crossings whose first arcs lead there.
    std::vector<std::vector<NearPart>> near = assign_exits();
    std::vector<std::vector<FarPart>> far = assign_far_trees();
    for (uint32_t meeting = 0; meeting < near.size(); ++meeting) {
      // The shallowest near part gets the highest far tree, so the deepest gets the lowest.
      std::ranges::stable_sort(near[meeting], std::less(), &NearPart::depth);
      std::ranges::stable_sort(far[meeting], std::greater(), &FarPart::height);
      auto begin = near[meeting].begin();
      for (FarPart& part : far[meeting]) {
        while (part.units > 0) {
          const int64_t units = std::min(part.units, begin->units);
          add_tree(*begin, part, units);
          part.units -= units;
          if ((begin->units -= units) == 0) ++begin;
        }
      }
    }
  }

  // Of every near terminal in every near tree.
  void find_depths() {
    for (const PackedTree& tree : near_trees_.trees) {
      std::vector<uint32_t>& depth = depths_.emplace_back(near_.network().terminal_count(), 0);
      for (const uint32_t id : tree.paths) {
        const std::span path = near_trees_.paths.path(id);
        depth[near_.network().arcs()[path.back()].head] = depth[near_.network().arcs()[path.front()].tail] + 1;
      }
    }
  }

  // The units of near trees on their way to exits.
  struct Transport {
    std::vector<int64_t> wanted, unused;      // by exit, by tree
    std::vector<std::vector<int64_t>> given;  // by exit and tree
  };

  // By the vertex behind the first arc, the parts of near trees that come there: the transport from trees to exits
  // whose greatest depth is least, and beyond that greedy.
  std::vector<std::vector<NearPart>> assign_exits() const {
    // Exits want the units of their crossings; every near tree offers its units to any of its terminals.
    const size_t exits = near_.network().terminal_count(), trees = near_trees_.trees.size();
    Transport transport{.wanted = std::vector<int64_t>(exits, 0),
                        .unused = {},
                        .given = std::vector<std::vector<int64_t>>(exits, std::vector<int64_t>(trees, 0))};
    auto& [wanted, unused, given] = transport;
    for (const Crossing& crossing : crossings_) wanted[near_.own(crossing.exit)] += crossing.units;
    for (const PackedTree& tree : near_trees_.trees) unused.push_back(tree.units);
    // The depth that is allowed rises level by level, and at each level augmenting paths are used up before. So the
    // greatest depth is least. At the greatest depth of all any tree serves any exit, so the loop ends.
    for (uint32_t deepest = 0; std::ranges::any_of(wanted, [](int64_t units) { return units > 0; }); ++deepest) {
      CHECK(deepest < exits) << "near trees and crossings have not the same units";
      for (uint32_t exit = 0; exit < exits; ++exit) {
        while (wanted[exit] > 0 && augment(exit, deepest, transport)) {
        }
      }
    }
    // Each crossing takes of the trees that its exit was given, one tree after the other, and is cut where a tree ends.
    std::vector<std::vector<NearPart>> parts(problem_.network.vertex_count());
    std::vector<size_t> tree(exits, 0);
    for (const Crossing& crossing : crossings_) {
      const uint32_t exit = near_.own(crossing.exit), first = crossing.arcs.front();
      for (int64_t left = crossing.units; left > 0;) {
        int64_t& some = given[exit][tree[exit]];
        const int64_t units = std::min(left, some);
        if (units > 0) {
          parts[arc(first).head].push_back(
              {.tree = tree[exit], .first_arc = first, .units = units, .depth = depths_[tree[exit]][exit]});
        }
        left -= units;
        if ((some -= units) == 0) ++tree[exit];
      }
    }
    return parts;
  }

  // Gives the exit more of trees in which it is at most so deep; where these are used up, another exit that has some of
  // them takes a different tree.
  bool augment(uint32_t exit, uint32_t deepest, Transport& transport) const {
    auto& [wanted, unused, given] = transport;
    const size_t exits = given.size(), trees = unused.size();
    // Breadth first, by turns: from an exit to the trees in which it stands high enough, from a tree to exits that have
    // some of it. The search ends at a tree with unused units.
    std::vector<uint32_t> taker(trees, kNone), from(exits, kNone), queue{exit};
    size_t last = trees;
    for (size_t i = 0; i < queue.size() && last == trees; ++i) {
      for (size_t tree = 0; tree < trees && last == trees; ++tree) {
        if (taker[tree] != kNone || depths_[tree][queue[i]] > deepest) continue;
        taker[tree] = queue[i];
        if (unused[tree] > 0) last = tree;
        for (uint32_t other = 0; other < exits; ++other) {
          if (given[other][tree] == 0 || other == exit || from[other] != kNone) continue;
          from[other] = static_cast<uint32_t>(tree);
          queue.push_back(other);
        }
      }
    }
    if (last == trees) return false;
    // The path bears as much as its scarcest step.
    int64_t units = std::min(wanted[exit], unused[last]);
    for (uint32_t at = taker[last]; at != exit; at = taker[from[at]]) units = std::min(units, given[at][from[at]]);
    unused[last] -= units;
    wanted[exit] -= units;
    // Along the path back each exit gives up units of one tree and gets as many of the next; the first exit has more.
    size_t tree = last;
    for (uint32_t at = taker[last];; at = taker[tree]) {
      given[at][tree] += units;
      if (at == exit) return true;
      tree = from[at];
      given[at][tree] -= units;
    }
  }

  // By the vertex behind the first arc, what goes on from there.
  std::vector<std::vector<FarPart>> assign_far_trees() const {
    // The far trees of a terminal serve the crossings that end there, in any order: heights are matched at the
    // meetings.
    std::vector<std::vector<size_t>> of_entry(problem_.network.terminal_count());
    std::vector<int64_t> left;
    for (size_t i = 0; i < far_trees_.trees.size(); ++i) {
      of_entry[far_.whole(far_trees_.trees[i].root)].push_back(i);
      left.push_back(far_trees_.trees[i].units);
    }
    std::vector<std::vector<FarPart>> parts(problem_.network.vertex_count());
    for (size_t c = 0; c < crossings_.size(); ++c) {
      const Crossing& crossing = crossings_[c];
      // The height above the exit: hops of the crossing itself, then the far tree.
      const auto hops =
          std::ranges::count_if(crossing.arcs, [&](uint32_t a) { return problem_.network.is_terminal(arc(a).head); });
      std::vector<size_t>& trees = of_entry[crossing.entry];
      for (int64_t wanted = crossing.units; wanted > 0;) {
        const size_t tree = trees.back();
        const int64_t units = std::min(wanted, left[tree]);
        parts[arc(crossing.arcs.front()).head].push_back(
            {.crossing = c,
             .tree = tree,
             .units = units,
             .height = static_cast<uint32_t>(hops) + far_trees_.trees[tree].height});
        wanted -= units;
        if ((left[tree] -= units) == 0) trees.pop_back();
      }
    }
    return parts;
  }

  // Near tree, way across, far tree; where the way passes terminals, the far tree's edges to them are left out.
  void add_tree(const NearPart& near, const FarPart& far, int64_t units) {
    PackedTree tree{.root = problem_.root, .units = units};
    std::vector<uint32_t> depth(problem_.network.terminal_count(), kNone);
    depth[problem_.root] = 0;
    // A terminal that the tree has reached already keeps its first parent, so the result is a tree.
    const auto add = [&](std::span<const uint32_t> path) {
      uint32_t& to = depth[arc(path.back()).head];
      if (to != kNone) return;
      to = depth[arc(path.front()).tail] + 1;
      tree.height = std::max(tree.height, to);
      tree.paths.push_back(joined_.paths.intern(path));
    };
    for (const uint32_t id : near_trees_.trees[near.tree].paths) add(near_.path(near_trees_.paths.path(id)));
    // The crossing is entered over the near part's own first arc: both end in the meeting. Behind it the way is cut
    // into an edge for each terminal that it passes.
    std::vector<uint32_t> way = crossings_[far.crossing].arcs;
    way.front() = near.first_arc;
    for (size_t begin = 0, i = 0; i < way.size(); ++i) {
      if (!problem_.network.is_terminal(arc(way[i]).head)) continue;
      add(std::span(way).subspan(begin, i + 1 - begin));
      begin = i + 1;
    }
    for (const uint32_t id : far_trees_.trees[far.tree].paths) add(far_.path(far_trees_.paths.path(id)));
    joined_.trees.push_back(std::move(tree));
  }

  const OneRoot& problem_;
  const VertexSet cut_;  // the near side
  const Side near_, far_;
  int64_t parts_ = 1, near_parts_ = 1;
  std::vector<int64_t> left_;  // less what crossings need
  std::vector<Crossing> crossings_;
  Packing near_trees_, far_trees_, joined_;
  std::vector<std::vector<uint32_t>> depths_;  // by near tree and near terminal
};

}  // namespace

std::optional<OneRootPacking> pack_across_cut(const OneRoot& problem) { return Halves(problem).pack(); }

}  // namespace banyan::plan
