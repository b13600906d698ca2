#include "banyan/plan/forest/breadth_first.h"

#include <algorithm>
#include <compare>
#include <queue>
#include <utility>
#include <vector>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

// What it takes to come to a vertex.
struct Distance {
  uint32_t hops = UINT32_MAX;  // between terminals, all that are begun
  double busy = 0;             // the units over bandwidth of its arcs so far, summed
  auto operator<=>(const Distance&) const = default;
};

class BreadthFirstGrower {
 public:
  explicit BreadthFirstGrower(const Network& network) : network_(network), load_(network.arcs().size(), 0) {}

  void add(Packing& packing, uint32_t root, int64_t units) {
    // Shortest paths first, by hops and then by the load of the trees so far.
    find_distances_from(root);
    PackedTree tree{.root = root, .units = units};
    CHECK_EQ(order_.size(), network_.terminal_count()) << "not every terminal is reached from " << root;
    for (const uint32_t terminal : order_) {
      if (terminal == root) continue;
      // An edge of the tree: back from the terminal through switches to the terminal before it, which joined earlier.
      path_.clear();
      uint32_t at = terminal;
      do {
        path_.push_back(by_[at]);
        at = network_.arcs()[by_[at]].tail;
      } while (!network_.is_terminal(at));
      std::ranges::reverse(path_);
      // Later roots see this load and turn to other paths of as few hops.
      for (const uint32_t a : path_) load_[a] += units;
      tree.paths.push_back(packing.paths.intern(path_));
      tree.height = std::max(tree.height, distance_[terminal].hops);
    }
    packing.trees.push_back(std::move(tree));
  }

  Fraction time() const {
    Fraction most;
    for (size_t a = 0; a < load_.size(); ++a) most = std::max(most, Fraction(load_[a], network_.bandwidths()[a]));
    return most;
  }

 private:
  // Dijkstra's algorithm: fewest hops first, then the least busy. Leaves the terminals in the order of their hops.
  void find_distances_from(uint32_t root) {
    distance_.assign(network_.vertex_count(), Distance{});
    by_.assign(network_.vertex_count(), UINT32_MAX);
    order_.clear();
    std::priority_queue<std::pair<Distance, uint32_t>, std::vector<std::pair<Distance, uint32_t>>, std::greater<>> next;
    distance_[root] = {.hops = 0, .busy = 0};
    next.emplace(distance_[root], root);
    while (!next.empty()) {
      const auto [distance, at] = next.top();
      next.pop();
      // A vertex that was reached on a shorter path since then has been dealt with.
      if (distance != distance_[at]) continue;
      const bool is_terminal = network_.is_terminal(at);
      if (is_terminal) order_.push_back(at);
      for (const uint32_t a : network_.out_arcs(at)) {
        const uint32_t head = network_.arcs()[a].head;
        // A hop begins at each terminal, so paths through more switches are not longer in hops.
        const Distance longer{
            .hops = distance.hops + is_terminal,
            .busy = distance.busy + static_cast<double>(load_[a]) / static_cast<double>(network_.bandwidths()[a])};
        if (longer >= distance_[head]) continue;
        distance_[head] = longer;
        by_[head] = a;
        next.emplace(longer, head);
      }
    }
  }

  const Network& network_;
  std::vector<int64_t> load_;       // by arc, of the trees so far
  std::vector<Distance> distance_;  // by vertex, as are the arcs by which it is reached
  std::vector<uint32_t> by_, order_, path_;
};

}  // namespace

BreadthFirstTrees breadth_first_trees(const Network& network, std::span<const int64_t> supply) {
  BreadthFirstTrees result;
  BreadthFirstGrower grower(network);
  // Root by root, so that each sees the load of those before it.
  for (uint32_t root = 0; root < network.terminal_count(); ++root) {
    if (supply[root] > 0) grower.add(result.packing, root, supply[root]);
  }
  result.time = grower.time();
  return result;
}

}  // namespace banyan::plan
