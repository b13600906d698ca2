#include "banyan/plan/forest/steiner_tree.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/plan/forest/switch_nodes.h"

namespace banyan::plan {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();
constexpr uint32_t kNoArc = UINT32_MAX;

using Near = std::pair<double, uint32_t>;
using NearestFirst = std::priority_queue<Near, std::vector<Near>, std::greater<>>;

// A circle of parents, or nothing.
std::vector<uint32_t> circle_in(const std::vector<uint32_t>& parent, uint32_t root) {
  // Each walk up the parents is marked with its start. A walk that meets its own mark has found a circle; one that
  // meets an older mark ends, so all walks together are linear.
  std::vector<uint32_t> seen_from(parent.size(), UINT32_MAX);
  for (uint32_t start = 0; start < parent.size(); ++start) {
    uint32_t v = start;
    while (v != root && seen_from[v] == UINT32_MAX) {
      seen_from[v] = start;
      v = parent[v];
    }
    if (v == root || seen_from[v] != start) continue;
    std::vector<uint32_t> circle{v};
    for (uint32_t w = parent[v]; w != v; w = parent[w]) circle.push_back(w);
    return circle;
  }
  return {};
}

}  // namespace

// Every node takes its cheapest parent; a circle of these becomes one node, whose parent replaces one of its edges.
std::vector<uint32_t> least_arborescence(std::span<const double> costs, uint32_t root) {
  const auto count = static_cast<uint32_t>(std::llround(std::sqrt(static_cast<double>(costs.size()))));
  std::vector<uint32_t> parent(count);
  for (uint32_t v = 0; v < count; ++v) {
    parent[v] = v;
    for (uint32_t u = 0; u < count && v != root; ++u) {
      if (u != v && (parent[v] == v || costs[u * count + v] < costs[parent[v] * count + v])) parent[v] = u;
    }
  }
  // Without a circle the cheapest parents are a tree already.
  const std::vector<uint32_t> circle = circle_in(parent, root);
  if (circle.empty()) return parent;
  // Nodes outside keep their order; the circle comes last.
  std::vector<uint32_t> place(count, 0), outside;
  for (const uint32_t v : circle) place[v] = UINT32_MAX;
  for (uint32_t v = 0; v < count; ++v) {
    if (place[v] == UINT32_MAX) continue;
    place[v] = static_cast<uint32_t>(outside.size());
    outside.push_back(v);
  }
  const auto merged = static_cast<uint32_t>(outside.size());
  const uint32_t less = merged + 1;
  std::vector<double> reduced(size_t{less} * less, kUnreached);
  // The circle becomes one node. An edge into it costs what it costs beyond the edge of the circle that it replaces; an
  // edge out of it is the cheapest of all members.
  std::vector<uint32_t> entry(merged, circle.front()), leave(merged, circle.front());
  for (uint32_t i = 0; i < merged; ++i) {
    for (uint32_t j = 0; j < merged; ++j) reduced[i * less + j] = costs[outside[i] * count + outside[j]];
    for (const uint32_t v : circle) {
      const double in = costs[outside[i] * count + v] - costs[parent[v] * count + v];
      if (in < reduced[i * less + merged]) {
        reduced[i * less + merged] = in;
        entry[i] = v;
      }
      const double out = costs[v * count + outside[i]];
      if (out < reduced[merged * less + i]) {
        reduced[merged * less + i] = out;
        leave[i] = v;
      }
    }
  }
  // The tree of the smaller graph says where the circle is entered: that edge of the circle goes.
  const std::vector<uint32_t> inner = least_arborescence(reduced, place[root]);
  for (uint32_t i = 0; i < merged; ++i) {
    if (outside[i] != root) parent[outside[i]] = inner[i] == merged ? leave[i] : outside[inner[i]];
  }
  parent[entry[inner[merged]]] = outside[inner[merged]];
  return parent;
}

SteinerTrees::SteinerTrees(const Network& network, std::span<const uint32_t> branching) : network_(network) {
  nodes_.resize(network.participant_count());
  std::iota(nodes_.begin(), nodes_.end(), 0u);
  std::vector<uint8_t> is_reached(network.vertex_count(), 0);
  for (const uint32_t v : network.reached_from(nodes_)) is_reached[v] = 1;
  // Nodes of trees: participants, and switches that may branch and that something reaches.
  for (const uint32_t v : branching) {
    if (is_reached[v]) nodes_.push_back(v);
  }
  place_.assign(network.vertex_count(), kNoPlace);
  for (uint32_t i = 0; i < nodes_.size(); ++i) place_[nodes_[i]] = i;
}

void SteinerTrees::set_lengths(std::span<const double> lengths) {
  lengths_.assign(lengths.begin(), lengths.end());
  if (is_large()) return;
  distance_.assign(nodes_.size() * nodes_.size(), kUnreached);
  via_.resize(nodes_.size());
  // A search from each node: distances between nodes, and for each node the arcs by which its paths come.
  std::vector<double> from_here;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    from_here.assign(network_.vertex_count(), kUnreached);
    via_[i].assign(network_.vertex_count(), kNoArc);
    from_here[nodes_[i]] = 0;
    // Dijkstra's algorithm from each node. No path goes on through another participant.
    NearestFirst queue;
    queue.emplace(0, nodes_[i]);
    while (!queue.empty()) {
      const auto [so_far, v] = queue.top();
      queue.pop();
      if (so_far > from_here[v] || (network_.is_participant(v) && v != nodes_[i])) continue;
      for (const uint32_t a : network_.out_arcs(v)) {
        const uint32_t head = network_.arcs()[a].head;
        if (from_here[head] <= so_far + lengths_[a]) continue;
        from_here[head] = so_far + lengths_[a];
        via_[i][head] = a;
        queue.emplace(from_here[head], head);
      }
    }
    for (uint32_t j = 0; j < nodes_.size(); ++j) distance_[i * nodes_.size() + j] = from_here[nodes_[j]];
  }
}

// The tree that always lets the nearest participant join, from where it is nearest to: a member, or a switch on the way
// to one that may branch.
SteinerTrees::Tree SteinerTrees::nearest_first(uint32_t root) const {
  // Members have distance 0, so that the search goes on from the whole tree and not from the root alone.
  std::vector<double> reach(network_.vertex_count(), kUnreached);
  std::vector<uint32_t> via(network_.vertex_count(), kNoArc);
  std::vector<uint8_t> in_tree(network_.vertex_count(), 0);
  NearestFirst queue;
  const auto add = [&](uint32_t vertex) {
    in_tree[vertex] = 1;
    reach[vertex] = 0;
    queue.emplace(0, vertex);
  };
  Packing grown;
  grown.trees = {{.root = root, .units = 1}};
  add(root);
  while (!queue.empty()) {
    const auto [so_far, v] = queue.top();
    queue.pop();
    if (so_far > reach[v]) continue;
    if (network_.is_participant(v) && !in_tree[v]) {
      // The nearest participant joins. Its path is cut at the switches on it that may branch: they become nodes.
      std::vector<std::vector<uint32_t>> paths(1);
      uint32_t w = v;
      do {
        paths.back().push_back(via[w]);
        w = network_.arcs()[via[w]].tail;
        if (!in_tree[w] && place_[w] != kNoPlace) paths.emplace_back();
      } while (!in_tree[w]);
      for (size_t i = paths.size(); i-- > 0;) {
        std::ranges::reverse(paths[i]);
        add(network_.arcs()[paths[i].back()].head);
        grown.trees[0].paths.push_back(grown.paths.intern(paths[i]));
      }
      continue;
    }
    for (const uint32_t a : network_.out_arcs(v)) {
      const uint32_t head = network_.arcs()[a].head;
      if (in_tree[head] || reach[head] <= so_far + lengths_[a]) continue;
      reach[head] = so_far + lengths_[a];
      via[head] = a;
      queue.emplace(reach[head], head);
    }
  }
  // A switch with one branch alone is no node of the tree.
  const Packing cut = without_idle_switches(network_, grown);
  Tree tree;
  for (const uint32_t id : cut.trees[0].paths) {
    const std::span path = cut.paths.path(id);
    for (const uint32_t arc : path) tree.length += lengths_[arc];
    tree.paths.emplace_back(path.begin(), path.end());
  }
  return tree;
}

SteinerTrees::Nodes SteinerTrees::switches_of(const Tree& tree) const {
  Nodes switches;
  for (const std::vector<uint32_t>& path : tree.paths) {
    const uint32_t head = network_.arcs()[path.back()].head;
    if (!network_.is_participant(head)) switches.push_back(place_[head]);
  }
  std::ranges::sort(switches);
  return switches;
}

std::vector<uint32_t> SteinerTrees::path(uint32_t from, uint32_t to) const {
  std::vector<uint32_t> arcs;
  for (uint32_t v = nodes_[to]; v != nodes_[from]; v = network_.arcs()[arcs.back()].tail) {
    arcs.push_back(via_[from][v]);
  }
  std::reverse(arcs.begin(), arcs.end());
  return arcs;
}

// The cheapest tree whose nodes are the participants and these switches, without those of the switches that it has no
// use for; `used` are those that are left.
SteinerTrees::Tree SteinerTrees::between(uint32_t root, const Nodes& switches, Nodes& used) const {
  // Only the participants and the given switches are nodes here.
  Nodes nodes(network_.participant_count());
  std::iota(nodes.begin(), nodes.end(), 0u);
  nodes.insert(nodes.end(), switches.begin(), switches.end());
  // Costs between known nodes are shortest paths through switches, so the tree is a least arborescence.
  std::vector<double> costs;
  costs.reserve(nodes.size() * nodes.size());
  for (const uint32_t i : nodes) {
    for (const uint32_t j : nodes) costs.push_back(distance(i, j));
  }
  const std::vector<uint32_t> parent = least_arborescence(costs, root);
  // Switches without participants behind them are left out.
  std::vector<std::vector<uint32_t>> children(nodes.size());
  for (uint32_t v = 0; v < nodes.size(); ++v) {
    if (v != root) children[parent[v]].push_back(v);
  }
  // Which nodes have a participant at or behind them: children come after their parents in `order`.
  std::vector<uint32_t> order{root};
  for (size_t i = 0; i < order.size(); ++i) {
    order.insert(order.end(), children[order[i]].begin(), children[order[i]].end());
  }
  CHECK_EQ(order.size(), nodes.size()) << "the participants cannot be reached from " << root;
  std::vector<uint8_t> needed(nodes.size(), 0);
  for (size_t i = order.size(); i-- > 0;) {
    const uint32_t v = order[i];
    if (network_.is_participant(nodes[v])) needed[v] = 1;
    if (needed[v] && v != root) needed[parent[v]] = 1;
  }
  Tree tree;
  used.clear();
  for (const uint32_t v : order) {
    if (v == root || !needed[v]) continue;
    // Edges come parents before children, as in `order`. Only switches that branch count as used.
    tree.length += distance(nodes[parent[v]], nodes[v]);
    tree.paths.push_back(path(nodes[parent[v]], nodes[v]));
    const auto branches = std::ranges::count_if(children[v], [&](uint32_t child) { return needed[child] != 0; });
    if (!network_.is_participant(nodes[v]) && branches > 1) used.push_back(nodes[v]);
  }
  std::ranges::sort(used);
  return tree;
}

SteinerTrees::Tree SteinerTrees::find(uint32_t root) const {
  // The tree that joins the nearest is the first answer; on large fabrics it is the only one.
  Tree best = nearest_first(root);
  if (is_large()) return best;
  // Three first choices of switches: those of that tree, all, and none. Each goes on with the switches that its tree
  // uses, until a choice comes twice. Choices are finite, so this ends.
  Nodes all(nodes_.size() - network_.participant_count());
  std::iota(all.begin(), all.end(), network_.participant_count());
  std::vector<Nodes> tried;
  for (Nodes next : {switches_of(best), all, Nodes()}) {
    while (std::ranges::find(tried, next) == tried.end()) {
      tried.push_back(next);
      Nodes used;
      Tree tree = between(root, next, used);
      if (tree.length < best.length) best = std::move(tree);
      next = std::move(used);
    }
  }
  return best;
}

}  // namespace banyan::plan
