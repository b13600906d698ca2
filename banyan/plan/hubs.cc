#include "banyan/plan/hubs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "banyan/plan/cut_condition.h"
#include "banyan/plan/cut_ledger.h"
#include "banyan/plan/rotation.h"
#include "banyan/plan/tree_grower.h"

namespace banyan::plan {
namespace {

// Attempts, and arcs looked at, before a manner of growing is given up: about a tenth of a second.
constexpr int kHubAttempts = 16;
constexpr uint64_t kGrowthWork = 20'000'000;
// A way's trees have at least this part of its units each.
constexpr int64_t kWaySplits = 64;
constexpr uint32_t kNotReached = UINT32_MAX;

// Units of one way from the root to a terminal.
struct Way {
  std::vector<uint32_t> arcs;
  int64_t units = 0;
};

// A flow from the root, sent along shortest ways first.
class RootFlow {
 public:
  RootFlow(const Network& network, std::span<const int64_t> capacity, uint32_t root)
      : network_(&network), room_(capacity.begin(), capacity.end()), flow_(capacity.size(), 0), root_(root) {}

  // Sends up to `units` more to the terminal; returns how many of them there was no room for.
  int64_t send(uint32_t terminal, int64_t units) {
    while (units > 0 && search(terminal)) {
      int64_t most = units;
      walk_back(terminal, [&](uint32_t a, bool forward) { most = std::min(most, forward ? room_[a] : flow_[a]); });
      walk_back(terminal, [&](uint32_t a, bool forward) {
        room_[a] += forward ? -most : most;
        flow_[a] += forward ? most : -most;
      });
      units -= most;
    }
    return units;
  }

  int64_t on(uint32_t arc) const { return flow_[arc]; }
  // After a send() that fell short: whether the root could still reach a vertex.
  bool still_reaches(uint32_t vertex) const { return came_by_[vertex] != kNotReached; }

  // Takes a way to the terminal, of at most `units` units, out of the flow.
  Way take_way(uint32_t terminal, int64_t units) {
    search_flow(terminal);
    Way way{.arcs = {}, .units = units};
    for (uint32_t v = terminal; v != root_; v = network_->arcs()[way.arcs.back()].tail) {
      way.arcs.push_back(came_by_[v] / 2);
      way.units = std::min(way.units, flow_[way.arcs.back()]);
    }
    for (const uint32_t a : way.arcs) flow_[a] -= way.units;
    std::reverse(way.arcs.begin(), way.arcs.end());
    return way;
  }

 private:
  // came_by_: twice the arc, and one more where it was walked against its direction.
  bool search(uint32_t terminal) {
    begin_search();
    for (size_t i = 0; i < queue_.size() && came_by_[terminal] == kNotReached; ++i) {
      for (const uint32_t a : network_->out_arcs(queue_[i])) {
        if (room_[a] > 0) reach(network_->arcs()[a].head, 2 * a);
      }
      for (const uint32_t a : network_->in_arcs(queue_[i])) {
        if (flow_[a] > 0) reach(network_->arcs()[a].tail, 2 * a + 1);
      }
    }
    return came_by_[terminal] != kNotReached;
  }

  void search_flow(uint32_t terminal) {
    begin_search();
    for (size_t i = 0; i < queue_.size() && came_by_[terminal] == kNotReached; ++i) {
      for (const uint32_t a : network_->out_arcs(queue_[i])) {
        if (flow_[a] > 0) reach(network_->arcs()[a].head, 2 * a);
      }
    }
  }

  void begin_search() {
    came_by_.assign(network_->vertex_count(), kNotReached);
    came_by_[root_] = kNotReached - 1;
    queue_.assign(1, root_);
  }

  void reach(uint32_t v, uint32_t half) {
    if (came_by_[v] != kNotReached) return;
    came_by_[v] = half;
    queue_.push_back(v);
  }

  template <typename Visit>
  void walk_back(uint32_t terminal, const Visit& visit) const {
    for (uint32_t v = terminal; v != root_;) {
      const uint32_t a = came_by_[v] / 2;
      const bool forward = came_by_[v] % 2 == 0;
      visit(a, forward);
      v = forward ? network_->arcs()[a].tail : network_->arcs()[a].head;
    }
  }

  const Network* network_;
  std::vector<int64_t> room_, flow_;
  uint32_t root_;
  std::vector<uint32_t> came_by_, queue_;
};

// The terminals beyond the narrowest cut nearest to the root that has the last terminal reached on its far side, if it
// has nothing to spare and holds most terminals; otherwise all but the root.
std::vector<uint32_t> find_hubs(const Network& network, std::span<const int64_t> capacity, uint32_t root,
                                int64_t supply) {
  const uint32_t terminals = network.terminal_count();
  std::vector<uint32_t> beyond, others;
  RootFlow flow(network, capacity, root);
  const uint32_t far = (root + terminals / 2) % terminals;
  flow.send(far, supply);
  const bool tight = flow.send(far, 1) == 1;
  for (uint32_t t = 0; t < terminals; ++t) {
    if (t == root) continue;
    others.push_back(t);
    if (tight && !flow.still_reaches(t)) beyond.push_back(t);
  }
  return 2 * beyond.size() >= terminals ? beyond : others;
}

class HubPacker {
 public:
  HubPacker(const Network& network, std::span<const int64_t> capacity, uint32_t root, int64_t supply)
      : network_(network),
        root_(root),
        supply_(supply),
        initial_(capacity.begin(), capacity.end()),
        left_(initial_),
        owed_(network.terminal_count(), 0),
        ledger_(network),
        grower_(network, left_, initial_, owed_, ledger_),
        ways_(network, capacity, root),
        depth_(network.terminal_count()) {
    std::vector<int64_t> supplies(network.terminal_count(), 0);
    supplies[root] = supply;
    CutCondition(network).find_violated({.capacity = initial_, .supply = supplies}, [&](const VertexSet& cut) {
      if (!cut[root] && std::ranges::count(cut, 1) > 1) ledger_.learn(cut, 0);
    });
  }

  // Trees of `units` for each hub, which follow those that it has in `allgather`. A hub that is left without a tree is
  // served first in the next attempt, and the cut that had nothing left is kept for those who need it.
  std::optional<Packing> pack(std::vector<uint32_t> hubs, int64_t units, const Packing& allgather,
                              const TreeGrower::Limits& limits, uint64_t work) {
    limits_ = limits;
    const uint64_t begun = grower_.work();
    for (int attempt = 0; attempt < kHubAttempts; ++attempt) {
      if (!book_ways(hubs, units, allgather)) return std::nullopt;
      const std::optional<uint32_t> failed = grow_all(hubs);
      if (!failed) return std::move(packing_);
      if (grower_.work() - begun > work) return std::nullopt;
      const bool learnt = learn();
      if (hubs.front() == *failed && !learnt) return std::nullopt;
      std::rotate(hubs.begin(), std::ranges::find(hubs, *failed), std::ranges::find(hubs, *failed) + 1);
    }
    return std::nullopt;
  }

 private:
  // The part of an allgather's tree that is kept: what hangs together with the hub when the root and all who are no
  // hubs are left out.
  struct Stem {
    int64_t units = 0;
    std::vector<TreeGrower::Path> paths;
  };

  // Takes what stems and the ways to the hubs need out of the capacity; false when there are no such ways.
  bool book_ways(const std::vector<uint32_t>& hubs, int64_t units, const Packing& allgather) {
    std::ranges::copy(initial_, left_.begin());
    for (const uint32_t hub : hubs) owed_[hub] = units;
    ledger_.recount([&](const VertexSet& cut) { return slack(cut); });
    packing_ = {};
    stems_.assign(network_.terminal_count(), {});
    for (const PackedTree& tree : allgather.trees) {
      if (owed_[tree.root] > 0) stems_[tree.root].push_back(stem_of(allgather.paths, tree));
    }
    for (const uint32_t hub : hubs) {
      if (stems_[hub].empty()) stems_[hub].push_back({.units = units, .paths = {}});
      for (const Stem& stem : stems_[hub]) book(stem.paths, -stem.units);
    }
    ways_ = RootFlow(network_, left_, root_);
    for (const uint32_t hub : hubs) {
      if (ways_.send(hub, units) > 0) return false;
    }
    for (uint32_t a = 0; a < left_.size(); ++a) left_[a] -= ways_.on(a);
    return true;
  }

  // The hub that is left without a tree, or nothing.
  std::optional<uint32_t> grow_all(const std::vector<uint32_t>& hubs) {
    for (const uint32_t hub : hubs) {
      for (Stem& stem : stems_[hub]) {
        while (stem.units > 0) {
          if (!grow(hub, ways_.take_way(hub, stem.units), stem)) return hub;
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
      if (grower_.members()[v]) reached.push_back(v);
    }
    for (const uint32_t v : reached) cut[v] = 0;
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

  Stem stem_of(const PathTable& paths, const PackedTree& tree) {
    Stem stem{.units = tree.units, .paths = {}};
    std::ranges::fill(depth_, kNotReached);
    depth_[tree.root] = 0;
    for (const uint32_t id : tree.paths) {
      const TreeGrower::Path path = paths.path(id);
      const uint32_t from = network_.arcs()[path.front()].tail, to = network_.arcs()[path.back()].head;
      if (depth_[from] == kNotReached || owed_[to] == 0) continue;
      depth_[to] = depth_[from] + 1;
      stem.paths.push_back(path);
    }
    return stem;
  }

  void book(std::span<const TreeGrower::Path> paths, int64_t units) {
    for (const TreeGrower::Path path : paths) {
      for (const uint32_t a : path) left_[a] += units;
    }
  }

  // The units of a way, as trees of the way, the stem without whom the way has passed, and what grows from both.
  bool grow(uint32_t hub, const Way& way, Stem& stem) {
    std::vector<TreeGrower::Path> start;
    std::ranges::fill(depth_, kNotReached);
    depth_[root_] = 0;
    for (size_t begin = 0, i = 0; i < way.arcs.size(); ++i) {
      const uint32_t to = network_.arcs()[way.arcs[i]].head;
      if (!network_.is_terminal(to)) continue;
      depth_[to] = 0;
      start.push_back(std::span(way.arcs).subspan(begin, i + 1 - begin));
      begin = i + 1;
    }
    const size_t ways = start.size();
    for (const TreeGrower::Path path : stem.paths) {
      if (depth_[network_.arcs()[path.back()].head] == kNotReached) start.push_back(path);
    }
    for (int64_t left = way.units, units = left; left > 0; units = std::min(units, left)) {
      book(stem.paths, units);
      book(std::span(start).first(ways), units);
      ++packing_.growths;
      if (grower_.grow(root_, units, limits_, start)) {
        commit(units);
        left -= units;
        stem.units -= units;
        owed_[hub] -= units;
        continue;
      }
      book(stem.paths, -units);
      book(std::span(start).first(ways), -units);
      units /= 2;
      if (units <= way.units / kWaySplits) return false;
    }
    return true;
  }

  void commit(int64_t units) {
    PackedTree tree{.root = root_, .units = units, .height = grower_.height()};
    for (const TreeGrower::Edge& edge : grower_.edges()) {
      tree.paths.push_back(packing_.paths.intern(grower_.path_of(edge)));
      for (const uint32_t a : grower_.path_of(edge)) left_[a] -= units;
    }
    packing_.trees.push_back(std::move(tree));
    ledger_.commit(units);
  }

  const Network& network_;
  const uint32_t root_;
  const int64_t supply_;
  const std::vector<int64_t> initial_;
  std::vector<int64_t> left_;  // less what stems and ways of trees to come need
  std::vector<int64_t> owed_;  // by hub
  CutLedger ledger_;
  TreeGrower grower_;
  TreeGrower::Limits limits_;
  std::vector<std::vector<Stem>> stems_;  // by hub: of trees to come
  RootFlow ways_;                         // to hubs of trees to come
  std::vector<uint32_t> depth_;           // scratch, by terminal
  Packing packing_;
};

// Trees of the hubs in what the ways to them leave, by the search that cannot fail where the cut condition holds.
std::optional<Packing> pack_beside_ways(const Network& network, std::span<const int64_t> capacity, uint32_t root,
                                        const std::vector<uint32_t>& hubs, int64_t units) {
  RootFlow flow(network, capacity, root);
  std::vector<int64_t> left(capacity.begin(), capacity.end()), supply(network.terminal_count(), 0);
  for (const uint32_t hub : hubs) {
    if (flow.send(hub, units) > 0) return std::nullopt;
    supply[hub] = units;
  }
  for (uint32_t a = 0; a < left.size(); ++a) left[a] -= flow.on(a);
  if (CutCondition(network).find_violated({.capacity = left, .supply = supply})) return std::nullopt;
  return pack_trees(network, left, supply);
}

// One tree that goes straight to everybody, where every link of the root's has room for that.
std::optional<Packing> pack_straight(const Network& network, std::span<const int64_t> capacity, uint32_t root,
                                     int64_t supply) {
  const std::vector<int64_t> nothing_owed(network.terminal_count(), 0);
  CutLedger ledger(network);
  TreeGrower grower(network, capacity, capacity, nothing_owed, ledger);
  if (!grower.grow(root, supply, {.max_height = 1, .waits_for_shorter = false})) return std::nullopt;
  Packing packing{.paths = {}, .trees = {{.root = root, .units = supply, .height = 1}}, .growths = 1};
  for (const TreeGrower::Edge& edge : grower.edges())
    packing.trees.front().paths.push_back(packing.paths.intern(grower.path_of(edge)));
  return packing;
}

}  // namespace

std::optional<HubPacking> pack_over_hubs(const Network& network, const Fabric& fabric,
                                         std::span<const int64_t> capacity, uint32_t root, int64_t supply,
                                         int64_t most_units) {
  if (auto packing = pack_straight(network, capacity, root, supply)) return HubPacking{.packing = std::move(*packing)};
  const std::vector<uint32_t> hubs = find_hubs(network, capacity, root, supply);
  const int64_t count = static_cast<int64_t>(hubs.size()), parts = count / std::gcd(count, supply);
  if (parts > most_units / supply) return std::nullopt;
  const int64_t units = supply * parts / count;
  std::vector<int64_t> wide(capacity.begin(), capacity.end());
  for (int64_t& c : wide) c *= parts;
  const std::vector<int64_t> supplies(network.terminal_count(), units);
  const auto along = [&](const Packing& allgather) -> std::optional<HubPacking> {
    HubPacker packer(network, wide, root, supply * parts);
    for (const bool waits : {true, false}) {
      auto packing = packer.pack(hubs, units, allgather, {.waits_for_shorter = waits}, kGrowthWork);
      if (packing) return HubPacking{.packing = std::move(*packing), .parts = parts};
    }
    return std::nullopt;
  };
  const uint32_t height = low_enough(least_height(network));
  if (const auto allgather = pack_low_by_rotation(network, fabric, wide, supplies, height)) {
    if (auto packing = along(*allgather)) return packing;
  }
  if (auto packing = along({})) return packing;
  const auto allgather = pack_beside_ways(network, wide, root, hubs, units);
  return allgather ? along(*allgather) : std::nullopt;
}

}  // namespace banyan::plan
