#include "banyan/plan/forest/exchange.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace banyan::plan {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;
// More trees than this, or more units into one vertex, are left to others.
constexpr int64_t kMostTrees = 64;
constexpr size_t kMostUnitsIn = 256;
constexpr uint64_t kMostPlaces = uint64_t{1} << 20;
// Steps and changes of depth that one annealing may make, for each vertex of each tree and at most. Lowering by one
// level that is possible seldom needs half of it.
constexpr uint64_t kWorkPerPlace = 10'000, kMostWork = 60'000'000;
// Temperatures and prices are in levels of depth. Where trees are lowered level by level they are kept together: it is
// cool, and cutting a vertex off costs as much as the whole height. If that ends close above the least height, small
// networks are tried from hot, too, where cutting off is cheap; large ones would take too long to cool down.
constexpr double kCool = 0.6, kHot = 4, kColdest = 0.12;
constexpr uint32_t kCheapCut = 2;
constexpr int kRestarts = 2, kHotAnnealings = 6;
constexpr uint64_t kMostRepeatedWork = 12'000'000;
constexpr uint64_t kStepsBetweenReports = 1 << 14;

// The trees, and of every vertex the units over which they come to it.
class Assignment {
 public:
  Assignment(const Network& network, std::span<const int64_t> capacity, uint32_t root, uint32_t trees)
      : network_(&network), root_(root), trees_(trees), vertices_(network.vertex_count()), units_(vertices_) {
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      const uint32_t head = network.arcs()[a].head;
      for (int64_t i = 0; head != root && i < std::min<int64_t>(capacity[a], trees); ++i)
        units_[head].push_back({.arc = a});
    }
    for (auto* row : {&unit_, &depth_, &first_child_, &next_, &previous_, &place_of_bad_})
      row->assign(size_t{trees} * vertices_, kNowhere);
    for (uint32_t tree = 0; tree < trees; ++tree) depth_[at(tree, root)] = 0;
  }

  // Whether every vertex has a unit for every tree.
  bool has_enough() const {
    for (uint32_t v = 0; v < vertices_; ++v) {
      if (v != root_ && (units_[v].size() < trees_ || units_[v].size() > kMostUnitsIn)) return false;
    }
    return true;
  }

  // All trees side by side, level by level; then the vertices that no tree could reach get what is left over.
  void grow() {
    // Level by level a vertex takes free units whose tails joined on the level above. The tree that may choose first
    // changes with vertex and level, so that no tree is preferred.
    for (uint32_t level = 0, joined = 1; joined > 0; ++level) {
      joined = 0;
      for (uint32_t v = 0; v < vertices_; ++v) {
        for (uint32_t u = 0; u < units_[v].size(); ++u) {
          for (uint32_t i = 0; i < trees_ && units_[v][u].tree == kNowhere; ++i) {
            const uint32_t tree = (i + v + level) % trees_;
            if (unit_[at(tree, v)] != kNowhere || depth_[at(tree, tail(v, u))] != level) continue;
            come_over(tree, v, u);
            ++joined;
          }
        }
      }
    }
    for (uint32_t v = 0; v < vertices_; ++v) {
      uint32_t free = 0;
      for (uint32_t tree = 0; v != root_ && tree < trees_; ++tree) {
        if (unit_[at(tree, v)] != kNowhere) continue;
        while (units_[v][free].tree != kNowhere) ++free;
        come_over(tree, v, free);
      }
    }
  }

  // From now on a vertex costs what it is deeper than the aim, or this price where it is cut off.
  void aim_at(uint32_t aim, uint32_t price_of_cut) {
    aim_ = aim;
    price_of_cut_ = price_of_cut;
    bad_.clear();
    cost_ = 0;
    for (uint32_t tree = 0; tree < trees_; ++tree) {
      for (uint32_t v = 0; v < vertices_; ++v) {
        place_of_bad_[at(tree, v)] = kNowhere;
        if (v != root_) charge(at(tree, v), kDoesNotCost, depth_[at(tree, v)]);
      }
    }
  }

  bool is_done() const { return bad_.empty(); }
  int64_t cost() const { return cost_; }
  uint64_t work() const { return work_; }

  // A tree and a vertex that costs something, or one above it.
  void choose(std::mt19937_64& random, uint32_t& tree, uint32_t& vertex) const {
    const uint32_t bad = bad_[random() % bad_.size()];
    tree = bad / vertices_;
    vertex = bad % vertices_;
    if (depth_[bad] == kNowhere) return;
    for (uint64_t up = random() % depth_[bad]; up > 0; --up) vertex = tail(vertex, unit_[at(tree, vertex)]);
  }

  size_t units_in(uint32_t vertex) const { return units_[vertex].size(); }
  uint32_t unit(uint32_t tree, uint32_t vertex) const { return unit_[at(tree, vertex)]; }

  // The tree comes to the vertex over another unit; who came over that takes the tree's.
  void exchange(uint32_t tree, uint32_t v, uint32_t unit) {
    // A unit belongs to one tree at most before and after, so no arc is ever overloaded.
    const uint32_t other = units_[v][unit].tree, own = unit_[at(tree, v)];
    leave(tree, v);
    if (other != kNowhere) leave(other, v);
    come_over(tree, v, unit);
    if (other != kNowhere) come_over(other, v, own);
  }

  uint32_t height() const { return *std::ranges::max_element(depth_); }

  Packing packing() const {
    Packing packing;
    for (uint32_t tree = 0; tree < trees_; ++tree) {
      PackedTree packed{.root = root_, .units = 1};
      // Breadth first from the root: parents come before children, and the last vertex is the deepest.
      std::vector<uint32_t> order{root_};
      for (size_t i = 0; i < order.size(); ++i) {
        packed.height = depth_[at(tree, order[i])];
        for (uint32_t c = first_child_[at(tree, order[i])]; c != kNowhere; c = next_[at(tree, c)]) {
          order.push_back(c);
          const uint32_t arc = units_[c][unit_[at(tree, c)]].arc;
          packed.paths.push_back(packing.paths.intern({&arc, 1}));
        }
      }
      packing.trees.push_back(std::move(packed));
    }
    return packing;
  }

 private:
  struct Unit {
    uint32_t arc = 0;
    uint32_t tree = kNowhere;
  };
  static constexpr uint32_t kDoesNotCost = 0;

  size_t at(uint32_t tree, uint32_t v) const { return size_t{tree} * vertices_ + v; }
  uint32_t tail(uint32_t v, uint32_t unit) const { return network_->arcs()[units_[v][unit].arc].tail; }

  // kNowhere: cut off from the root.
  int64_t cost_of(uint32_t depth) const { return depth == kNowhere ? price_of_cut_ : depth <= aim_ ? 0 : depth - aim_; }

  void charge(size_t place, uint32_t before, uint32_t after) {
    const int64_t was = cost_of(before), is = cost_of(after);
    cost_ += is - was;
    // The list of places that cost something follows in constant time: the last one fills a hole.
    if ((was > 0) == (is > 0)) return;
    if (is > 0) {
      place_of_bad_[place] = static_cast<uint32_t>(bad_.size());
      bad_.push_back(static_cast<uint32_t>(place));
      return;
    }
    bad_[place_of_bad_[place]] = bad_.back();
    place_of_bad_[bad_.back()] = place_of_bad_[place];
    bad_.pop_back();
    place_of_bad_[place] = kNowhere;
  }

  void leave(uint32_t tree, uint32_t v) {
    const size_t here = at(tree, v);
    // The vertex leaves its parent's list. All below it keeps its depth until the vertex comes back over another unit.
    const uint32_t parent = tail(v, unit_[here]);
    if (previous_[here] != kNowhere) {
      next_[at(tree, previous_[here])] = next_[here];
    } else {
      first_child_[at(tree, parent)] = next_[here];
    }
    if (next_[here] != kNowhere) previous_[at(tree, next_[here])] = previous_[here];
    units_[v][unit_[here]].tree = kNowhere;
    unit_[here] = kNowhere;
  }

  void come_over(uint32_t tree, uint32_t v, uint32_t unit) {
    const size_t here = at(tree, v);
    const uint32_t parent = tail(v, unit);
    units_[v][unit].tree = tree;
    unit_[here] = unit;
    uint32_t depth = depth_[at(tree, parent)];
    // A parent that hangs below the vertex closes a circle: the vertex and all below it are cut off from the root.
    if (depth != kNowhere && hangs_below(tree, parent, v)) depth = kNowhere;
    if (depth != kNowhere) ++depth;
    // The vertex becomes the first of its parent's children; then the depths of all below it follow.
    previous_[here] = kNowhere;
    next_[here] = first_child_[at(tree, parent)];
    if (next_[here] != kNowhere) previous_[at(tree, next_[here])] = v;
    first_child_[at(tree, parent)] = v;
    set_depths(tree, v, depth);
  }

  // Of a vertex that hangs together with the root.
  bool hangs_below(uint32_t tree, uint32_t below, uint32_t v) {
    if (depth_[at(tree, v)] == kNowhere) return false;
    // A walk up to the vertex's own depth tells; it takes a step for each level between.
    while (below != root_ && depth_[at(tree, below)] > depth_[at(tree, v)]) {
      below = tail(below, unit_[at(tree, below)]);
      ++work_;
    }
    return below == v;
  }

  void set_depths(uint32_t tree, uint32_t v, uint32_t depth) {
    stack_.assign(1, v);
    set_depth(at(tree, v), depth);
    while (!stack_.empty()) {
      const uint32_t top = stack_.back();
      stack_.pop_back();
      const uint32_t next = depth_[at(tree, top)] == kNowhere ? kNowhere : depth_[at(tree, top)] + 1;
      for (uint32_t c = first_child_[at(tree, top)]; c != kNowhere; c = next_[at(tree, c)]) {
        if (depth_[at(tree, c)] == next) continue;  // and so has all that hangs below
        set_depth(at(tree, c), next);
        stack_.push_back(c);
      }
    }
  }

  void set_depth(size_t place, uint32_t depth) {
    ++work_;
    charge(place, depth_[place], depth);
    depth_[place] = depth;
  }

  const Network* network_;
  uint32_t root_, trees_, vertices_;
  std::vector<std::vector<Unit>> units_;  // by vertex
  // By tree and vertex; children are linked lists.
  std::vector<uint32_t> unit_, depth_, first_child_, next_, previous_, place_of_bad_;
  std::vector<uint32_t> bad_;  // places that cost something
  std::vector<uint32_t> stack_;
  uint32_t aim_ = 0, price_of_cut_ = 0;
  int64_t cost_ = 0;
  uint64_t work_ = 0;
};

// The search: an assignment, lowered by annealings.
class Exchange {
 public:
  // `least`: the height that the search is content with.
  Exchange(const OneRoot& problem, uint32_t least, uint64_t work)
      : problem_(problem), least_(least), work_(work), trees_(grown()) {}

  // Whether every vertex has a unit of arcs for every tree.
  bool has_enough() const { return trees_.has_enough(); }

  std::optional<Packing> pack() {
    // 1. Level by level down from loose.
    descend();
    if (!best_ || height_ == least_ || height_ > least_ + least_ / 2 || work_ == kMostWork) return std::move(best_);
    // 2. The same again: the choices are others now. Where one level is all that can be won it must be cheap.
    const auto is_cheap = [&](int times) { return (times + 1) * work_ <= kMostRepeatedWork; };
    for (int again = 0; again < kRestarts && (height_ > least_ + 1 || (height_ > least_ && is_cheap(again))); ++again) {
      trees_ = grown();
      descend();
    }
    // 3. From hot, each time from where the last attempt ended.
    for (int hot = 0; height_ > least_ && hot < kHotAnnealings && is_cheap(hot); ++hot) {
      if (!reach(least_, {.hottest = kHot, .price_of_cut = kCheapCut}, work_)) descend();
    }
    return std::move(best_);
  }

 private:
  struct Manner {
    double hottest = kCool;
    uint32_t price_of_cut = 0;
  };

  // All trees side by side, level by level.
  Assignment grown() const {
    Assignment trees(problem_.network, problem_.capacity, problem_.root, static_cast<uint32_t>(problem_.supply));
    if (trees.has_enough()) trees.grow();
    return trees;
  }

  // From where the trees are: first until nothing is cut off or very deep, then lower and lower until that fails.
  void descend() {
    bool whole = false;
    for (uint32_t aim = 2 * least_; !whole && aim <= 8 * least_; aim *= 2) whole = reach_cool(aim);
    while (whole && trees_.height() > least_) whole = reach_cool(trees_.height() - 1);
  }

  bool reach_cool(uint32_t aim) { return reach(aim, {.price_of_cut = aim}, work_ / 2); }

  // Exchanges until nothing is deeper than the aim; false when the work is used up before.
  bool reach(uint32_t aim, const Manner& manner, uint64_t work) {
    trees_.aim_at(aim, manner.price_of_cut);
    if (!anneal(manner.hottest, work)) return false;
    const uint32_t height = trees_.height();
    if (best_ && height >= height_) return true;
    best_ = trees_.packing();
    height_ = height;
    return true;
  }

  bool anneal(double hottest, uint64_t work) {
    const uint64_t begun = trees_.work();
    std::uniform_real_distribution<double> uniform;
    for (uint64_t steps = 0; !trees_.is_done(); ++steps) {
      const double done = static_cast<double>(trees_.work() - begun + steps) / static_cast<double>(work);
      if (done >= 1) return false;
      if (problem_.progress && steps % kStepsBetweenReports == 0) problem_.progress(done);
      // It cools from hottest to coldest with the work that is used up, in equal proportions.
      const double temperature = hottest * std::pow(kColdest / hottest, done);
      uint32_t tree = 0, v = 0;
      // One exchange: a vertex of a tree comes over another unit, chosen at random. It stays if it costs no more, or by
      // chance.
      trees_.choose(random_, tree, v);
      const uint32_t own = trees_.unit(tree, v), unit = static_cast<uint32_t>(random_() % trees_.units_in(v));
      if (unit == own) continue;
      const int64_t before = trees_.cost();
      trees_.exchange(tree, v, unit);
      const int64_t worse = trees_.cost() - before;
      // The same exchange once more undoes it.
      if (worse > 0 && uniform(random_) >= std::exp(-static_cast<double>(worse) / temperature))
        trees_.exchange(tree, v, own);
    }
    return true;
  }

  const OneRoot& problem_;
  const uint32_t least_;
  const uint64_t work_;
  std::mt19937_64 random_{1};
  Assignment trees_;
  std::optional<Packing> best_;
  uint32_t height_ = 0;  // of the best
};

}  // namespace

std::optional<Packing> pack_by_exchange(const OneRoot& problem) {
  const Network& network = problem.network;
  const uint64_t places = static_cast<uint64_t>(problem.supply) * network.vertex_count();
  if (network.vertex_count() != network.terminal_count() || problem.supply > kMostTrees || places > kMostPlaces)
    return std::nullopt;
  // The root hands each of several trees to a neighbour of its own, from where some are one hop further on.
  const uint32_t least = least_height_from(network, problem.root) + (problem.supply > 1 ? 1 : 0);
  Exchange exchange(problem, least, std::min(kWorkPerPlace * places, kMostWork));
  if (!exchange.has_enough()) return std::nullopt;
  auto packing = exchange.pack();
  if (packing && problem.max_height && height_of(*packing) > *problem.max_height) return std::nullopt;
  return packing;
}

}  // namespace banyan::plan
