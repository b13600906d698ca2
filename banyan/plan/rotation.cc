#include "banyan/plan/rotation.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "banyan/base/check.h"
#include "banyan/plan/cut_condition.h"
#include "banyan/plan/cut_ledger.h"
#include "banyan/plan/tree_grower.h"

namespace banyan {
namespace {

// Tables of images are group elements times arcs; beyond this many entries (256 MiB) the guess is not worth its memory.
constexpr size_t kMaxImages = size_t{1} << 26;

// The declared group as it acts on a network: images of vertices and arcs, element by element, the identity first.
class Action {
 public:
  // Nothing when the group does not keep the participants.
  static std::optional<Action> of(const Network& network, const Fabric& fabric) {
    const std::vector<Permutation> group = generate_group(fabric.symmetries(), fabric.ranks().size());
    if (group.size() < 2 || group.size() * network.arcs().size() > kMaxImages) return std::nullopt;
    Action action;
    std::vector<uint32_t> vertex_of(fabric.nodes().size(), UINT32_MAX);
    for (uint32_t v = 0; v < network.vertex_count(); ++v) vertex_of[index(network.node_of(v))] = v;
    const auto places = arc_places(network);
    for (const Permutation& element : group) {
      std::vector<uint32_t> vertices, arcs;
      for (uint32_t v = 0; v < network.vertex_count(); ++v) {
        vertices.push_back(vertex_of[index(element[index(network.node_of(v))])]);
        if (vertices.back() == UINT32_MAX) return std::nullopt;
      }
      for (uint32_t a = 0; a < network.arcs().size(); ++a) {
        const Arc& arc = network.arcs()[a];
        arcs.push_back(places.arc_at.at(key(vertices[arc.tail], vertices[arc.head], places.ordinal[a])));
      }
      action.vertices_.push_back(std::move(vertices));
      action.arcs_.push_back(std::move(arcs));
    }
    return action;
  }

  size_t size() const { return vertices_.size(); }
  uint32_t vertex(size_t element, uint32_t v) const { return vertices_[element][v]; }
  uint32_t arc(size_t element, uint32_t a) const { return arcs_[element][a]; }

 private:
  // Parallel arcs are told apart by their ordinal in the order of bandwidth, so that every element maps them one to
  // one.
  struct Places {
    std::unordered_map<uint64_t, uint32_t> arc_at;
    std::vector<uint32_t> ordinal;
  };

  static uint64_t key(uint32_t tail, uint32_t head, uint32_t ordinal) {
    return (uint64_t{tail} << 44) ^ (uint64_t{head} << 24) ^ ordinal;  // at most 10^6 nodes, below 2^20
  }

  static Places arc_places(const Network& network) {
    Places places{.arc_at = {}, .ordinal = std::vector<uint32_t>(network.arcs().size())};
    std::vector<uint32_t> by_bandwidth(network.arcs().size());
    std::iota(by_bandwidth.begin(), by_bandwidth.end(), 0u);
    std::stable_sort(by_bandwidth.begin(), by_bandwidth.end(),
                     [&](uint32_t a, uint32_t b) { return network.bandwidths()[a] < network.bandwidths()[b]; });
    for (const uint32_t a : by_bandwidth) {
      const Arc& arc = network.arcs()[a];
      while (!places.arc_at.try_emplace(key(arc.tail, arc.head, places.ordinal[a]), a).second) ++places.ordinal[a];
    }
    return places;
  }

  std::vector<std::vector<uint32_t>> vertices_, arcs_;  // by element
};

class RotatingPacker {
 public:
  RotatingPacker(const Network& network, const Action& action, std::span<const int64_t> capacity,
                 std::span<const int64_t> supply)
      : network_(network),
        action_(action),
        initial_(capacity.begin(), capacity.end()),
        left_(initial_),
        supply_(supply.begin(), supply.end()),
        nothing_owed_(supply.size(), 0),
        ledger_(network),
        grower_(network, left_, initial_, nothing_owed_, ledger_) {}

  std::optional<Packing> pack() {
    if (!is_symmetric()) return std::nullopt;
    CutCondition(network_).find_violated({.capacity = initial_, .supply = supply_},
                                         [&](const VertexSet& cut) { ledger_.learn(cut, 0); });
    for (uint32_t root = 0; root < network_.terminal_count(); ++root) {
      while (supply_[root] > 0) {
        if (!add_trees(root)) return std::nullopt;
      }
    }
    std::stable_sort(packing_.trees.begin(), packing_.trees.end(),
                     [](const PackedTree& a, const PackedTree& b) { return a.root < b.root; });
    return std::move(packing_);
  }

 private:
  bool is_symmetric() const {
    for (size_t g = 0; g < action_.size(); ++g) {
      for (uint32_t t = 0; t < network_.terminal_count(); ++t) {
        if (supply_[action_.vertex(g, t)] != supply_[t]) return false;
      }
      for (uint32_t a = 0; a < initial_.size(); ++a) {
        if (initial_[action_.arc(g, a)] != initial_[a]) return false;
      }
    }
    return true;
  }

  // How much of an arc one tree may take: its share of what is left, rounded down where arcs are narrow and up where
  // they are wide; rounded up everywhere; or all there is. A tree that reaches far at once over narrow arcs, because
  // there is still room, would leave later ones without.
  enum class Share { thrifty, even, all };

  void allot(Share share, int64_t units, std::span<const int64_t> available) {
    int64_t owed = 0;
    for (const int64_t supply : supply_) owed += supply;
    owed = (owed + static_cast<int64_t>(action_.size()) - 1) / static_cast<int64_t>(action_.size());
    const int64_t widest = *std::max_element(initial_.begin(), initial_.end());
    for (size_t a = 0; a < left_.size(); ++a) {
      const bool down = share == Share::thrifty && initial_[a] < widest;
      const int64_t edges = (available[a] + (down ? 0 : owed - 1)) / owed;
      left_[a] = share == Share::all ? available[a] : std::min(available[a], edges * units);
    }
  }

  // One tree for `root` and its images for the rest of the orbit.
  bool add_trees(uint32_t root) {
    const std::vector<int64_t> available = left_;
    for (int64_t units = supply_[root]; units > 0; units /= 2) {
      // Every image of an arc that the tree takes is taken by an image of the tree, once for each element that maps it
      // there; the grower itself counts the arc's own use by the identity.
      const auto take_images = [&] {
        for (const uint32_t a : grower_.path_of(grower_.edges().back())) {
          for (size_t g = 1; g < action_.size(); ++g) left_[action_.arc(g, a)] -= units;
        }
        return true;
      };
      for (const Share share : {Share::thrifty, Share::even, Share::all}) {
        allot(share, units, available);
        const std::vector<int64_t> allotted = left_;
        ++packing_.growths;
        if (!grower_.grow(root, units, {.keeps_last_edge = take_images}) || !fits(units)) continue;
        for (size_t a = 0; a < left_.size(); ++a) left_[a] += available[a] - allotted[a];
        commit(root, units);
        return true;
      }
    }
    return false;
  }

  // Images of one path may meet in an arc before the grower sees them, so the sums are looked at once more.
  bool fits(int64_t units) const {
    for (uint32_t a = 0; a < left_.size(); ++a) {
      if (left_[a] < units * int64_t{grower_.arc_uses()[a]}) return false;
    }
    return true;
  }

  void commit(uint32_t root, int64_t units) {
    for (uint32_t a = 0; a < left_.size(); ++a) left_[a] -= units * int64_t{grower_.arc_uses()[a]};
    std::vector<uint32_t> image;
    for (size_t g = 0; g < action_.size(); ++g) {
      PackedTree tree{.root = action_.vertex(g, root), .units = units, .height = grower_.height()};
      tree.paths.reserve(grower_.edges().size());
      for (const TreeGrower::Edge& edge : grower_.edges()) {
        image.clear();
        for (const uint32_t a : grower_.path_of(edge)) image.push_back(action_.arc(g, a));
        tree.paths.push_back(packing_.paths.intern(image));
      }
      supply_[tree.root] -= units;
      packing_.trees.push_back(std::move(tree));
    }
  }

  const Network& network_;
  const Action& action_;
  const std::vector<int64_t> initial_;
  std::vector<int64_t> left_, supply_;
  const std::vector<int64_t> nothing_owed_;  // all roots are served at once, so no arc is kept back for later ones
  CutLedger ledger_;
  TreeGrower grower_;
  Packing packing_;
};

}  // namespace

std::optional<Packing> pack_by_rotation(const Network& network, const Fabric& fabric, std::span<const int64_t> capacity,
                                        std::span<const int64_t> supply) {
  if (fabric.symmetries().empty()) return std::nullopt;
  const std::optional<Action> action = Action::of(network, fabric);
  if (!action) return std::nullopt;
  return RotatingPacker(network, *action, capacity, supply).pack();
}

}  // namespace banyan
