#include "banyan/plan/forest/rotation.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>

#include "banyan/plan/forest/cut_ledger.h"
#include "banyan/plan/forest/tree_grower.h"
#include "banyan/plan/graph/cut_condition.h"

namespace banyan::plan {
namespace {

// How much higher than asked for trees may come out.
constexpr uint32_t kExcess = 2;

// The declared generators as they act on a network, and what they make alike.
class Action {
 public:
  // Nothing when the group does not keep the participants.
  static std::optional<Action> of(const Network& network, const Fabric& fabric) {
    Action action;
    std::vector<uint32_t> vertex_of(fabric.nodes().size(), UINT32_MAX);
    for (uint32_t v = 0; v < network.vertex_count(); ++v) vertex_of[index(network.node_of(v))] = v;
    const Places places = arc_places(network);
    for (const fabric::Permutation& generator : fabric.symmetries()) {
      std::vector<uint32_t> vertices, arcs;
      for (uint32_t v = 0; v < network.vertex_count(); ++v) {
        vertices.push_back(vertex_of[index(generator[index(network.node_of(v))])]);
        if (vertices.back() == UINT32_MAX) return std::nullopt;
      }
      for (uint32_t a = 0; a < network.arcs().size(); ++a) {
        const Arc& arc = network.arcs()[a];
        arcs.push_back(places.arc_at.at(key(vertices[arc.tail], vertices[arc.head], places.ordinal[a])));
      }
      action.vertices_.push_back(std::move(vertices));
      action.arcs_.push_back(std::move(arcs));
    }
    action.find_classes(network);
    return action;
  }

  size_t generators() const { return vertices_.size(); }
  // Elements of the group: as many as there are images of any terminal, for none is kept in place.
  int64_t order() const { return order_; }
  uint32_t vertex(size_t generator, uint32_t v) const { return vertices_[generator][v]; }
  uint32_t arc(size_t generator, uint32_t a) const { return arcs_[generator][a]; }
  // The images of an arc; crossing it takes of each as often as elements map it there.
  const TreeGrower::ArcClasses& classes() const { return classes_; }

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

  void find_classes(const Network& network) {
    const size_t arcs = network.arcs().size();
    std::vector<uint32_t> orbit;
    std::vector<uint8_t> seen(network.vertex_count(), 0);
    orbit.assign(1, 0);
    seen[0] = 1;
    for (size_t i = 0; i < orbit.size(); ++i) {
      for (const auto& image : vertices_) {
        if (!seen[image[orbit[i]]]) orbit.push_back(image[orbit[i]]);
        seen[image[orbit[i]]] = 1;
      }
    }
    order_ = static_cast<int64_t>(orbit.size());
    classes_.of.assign(arcs, UINT32_MAX);
    for (uint32_t start = 0; start < arcs; ++start) {
      if (classes_.of[start] != UINT32_MAX) continue;
      const uint32_t id = static_cast<uint32_t>(classes_.weight.size());
      classes_.of[start] = id;
      orbit.assign(1, start);
      for (size_t i = 0; i < orbit.size(); ++i) {
        for (const auto& image : arcs_) {
          uint32_t& of = classes_.of[image[orbit[i]]];
          if (of == UINT32_MAX) orbit.push_back(image[orbit[i]]);
          of = id;
        }
      }
      classes_.weight.push_back(order_ / static_cast<int64_t>(orbit.size()));
    }
  }

  std::vector<std::vector<uint32_t>> vertices_, arcs_;  // by generator
  TreeGrower::ArcClasses classes_;
  int64_t order_ = 1;
};

// How much of an arc one tree may take: its share of what is left, rounded down where arcs are narrow and up where
// they are wide; or all there is. A tree that reaches far at once over narrow arcs, because there is still room, would
// leave later ones without.
enum class Share { thrifty, even, all };

// A way of growing all trees: which shares are tried, and within what limits.
struct Manner {
  std::vector<Share> shares;
  TreeGrower::Limits limits;
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
        path_image_(action.generators()),
        ledger_(network),
        grower_(network, left_, initial_, nothing_owed_, ledger_, action.classes()) {}

  std::optional<Packing> pack(const Manner& manner) {
    CutCondition(network_).find_violated({.capacity = initial_, .supply = supply_},
                                         [&](const VertexSet& cut) { ledger_.learn(cut, 0); });
    for (uint32_t root = 0; root < network_.terminal_count(); ++root) {
      while (supply_[root] > 0) {
        if (!add_trees(root, manner)) return std::nullopt;
      }
    }
    add_images();
    std::stable_sort(packing_.trees.begin(), packing_.trees.end(),
                     [](const PackedTree& a, const PackedTree& b) { return a.root < b.root; });
    return std::move(packing_);
  }

 private:
  void allot(Share share, int64_t units, std::span<const int64_t> available) {
    int64_t owed = 0;
    for (const int64_t supply : supply_) owed += supply;
    owed = (owed + action_.order() - 1) / action_.order();
    const int64_t widest = *std::max_element(initial_.begin(), initial_.end());
    for (size_t a = 0; a < left_.size(); ++a) {
      const bool down = share == Share::thrifty && initial_[a] < widest;
      const int64_t edges = available[a] / owed + (!down && available[a] % owed > 0);
      left_[a] = share == Share::all ? available[a] : std::min(available[a], edges * units);
    }
  }

  // One tree for `root` and its images for the rest of the orbit.
  bool add_trees(uint32_t root, const Manner& manner) {
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
    const TreeGrower::ArcClasses& classes = action_.classes();
    for (uint32_t a = 0; a < left_.size(); ++a)
      left_[a] -= units * classes.weight[classes.of[a]] * int64_t{grower_.class_uses()[classes.of[a]]};
    PackedTree tree{.root = root, .units = units, .height = grower_.height()};
    for (const TreeGrower::Edge& edge : grower_.edges())
      tree.paths.push_back(packing_.paths.intern(grower_.path_of(edge)));
    for_orbit(root, [&](uint32_t image, size_t, size_t) { supply_[image] -= units; });
    packing_.trees.push_back(std::move(tree));
  }

  // Calls visit(image, from, generator) for the terminals of an orbit: each is the generator's image of the one that
  // was visited as number `from`. An element of the group is known by where it takes the first, which comes without.
  template <typename Visit>
  void for_orbit(uint32_t first, const Visit& visit) const {
    std::vector<uint8_t> seen(network_.terminal_count(), 0);
    std::vector<uint32_t> orbit{first};
    seen[first] = 1;
    visit(first, SIZE_MAX, 0);
    for (size_t i = 0; i < orbit.size(); ++i) {
      for (size_t g = 0; g < action_.generators(); ++g) {
        const uint32_t next = action_.vertex(g, orbit[i]);
        if (seen[next]) continue;
        seen[next] = 1;
        orbit.push_back(next);
        visit(next, i, g);
      }
    }
  }

  // Only a complete packing is worth its images.
  void add_images() {
    std::vector<PackedTree> grown;
    grown.swap(packing_.trees);
    for (PackedTree& tree : grown) {
      const size_t first = packing_.trees.size();
      const uint32_t root = tree.root;
      packing_.trees.push_back(std::move(tree));
      for_orbit(root, [&](uint32_t next, size_t from, size_t generator) {
        if (from == SIZE_MAX) return;
        const PackedTree& source = packing_.trees[first + from];
        PackedTree image{.root = next, .units = source.units, .height = source.height};
        image.paths.reserve(source.paths.size());
        for (const uint32_t path : source.paths) image.paths.push_back(image_of(generator, path));
        packing_.trees.push_back(std::move(image));
      });
    }
  }

  uint32_t image_of(size_t generator, uint32_t path) {
    std::vector<uint32_t>& known = path_image_[generator];
    if (known.size() <= path) known.resize(std::max<size_t>(path + 1, 2 * known.size()), UINT32_MAX);
    if (known[path] == UINT32_MAX) {
      image_.clear();
      for (const uint32_t a : packing_.paths.path(path)) image_.push_back(action_.arc(generator, a));
      known[path] = packing_.paths.intern(image_);
    }
    return known[path];
  }

  const Network& network_;
  const Action& action_;
  const std::vector<int64_t> initial_;
  std::vector<int64_t> left_, supply_;
  const std::vector<int64_t> nothing_owed_;  // all roots are served at once, so no arc is kept back for later ones
  std::vector<std::vector<uint32_t>> path_image_;  // by generator and path
  std::vector<uint32_t> image_;
  CutLedger ledger_;
  TreeGrower grower_;
  Packing packing_;
};

bool is_symmetric(const Network& network, const Action& action, std::span<const int64_t> capacity,
                  std::span<const int64_t> supply) {
  for (size_t g = 0; g < action.generators(); ++g) {
    for (uint32_t t = 0; t < network.terminal_count(); ++t) {
      if (supply[action.vertex(g, t)] != supply[t]) return false;
    }
    for (uint32_t a = 0; a < capacity.size(); ++a) {
      if (capacity[action.arc(g, a)] != capacity[a]) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Packing> pack_by_rotation(const Network& network, const Fabric& fabric, std::span<const int64_t> capacity,
                                        std::span<const int64_t> supply, uint32_t height) {
  if (fabric.symmetries().empty()) return std::nullopt;
  const std::optional<Action> action = Action::of(network, fabric);
  if (!action || !is_symmetric(network, *action, capacity, supply)) return std::nullopt;
  // Straight to everybody where there is room for that, as in networks without oversubscription; then every box or leaf
  // entered once and filled from inside; then whatever comes.
  const Manner manners[] = {
      {.shares = {Share::all}, .limits = {.max_height = least_height(network), .waits_for_shorter = false}},
      {.shares = {Share::thrifty, Share::even, Share::all}, .limits = {.max_height = height}},
      {.shares = {Share::all}, .limits = {.max_height = height}},
      {.shares = {Share::thrifty, Share::even, Share::all},
       .limits = {.max_height = height, .waits_for_shorter = false}},
  };
  for (const Manner& manner : manners) {
    if (auto packing = RotatingPacker(network, *action, capacity, supply).pack(manner)) return packing;
  }
  return std::nullopt;
}

std::optional<Packing> pack_low_by_rotation(const Network& network, const Fabric& fabric,
                                            std::span<const int64_t> capacity, std::span<const int64_t> supply,
                                            uint32_t height) {
  for (uint32_t most = height; most <= height + kExcess; ++most) {
    if (auto packing = pack_by_rotation(network, fabric, capacity, supply, most)) return packing;
  }
  return std::nullopt;
}

}  // namespace banyan::plan
