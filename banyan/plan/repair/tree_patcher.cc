#include "banyan/plan/repair/tree_patcher.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

// The most trees that are patched before they are checked together, and how often one is tried.
constexpr size_t kMaxBatch = 64;
constexpr int kMaxTries = 6;

constexpr uint32_t kOutside = UINT32_MAX;

}  // namespace

struct TreePatcher::Growing {
  const BrokenTree& old;
  bool spares = true;                        // what other broken trees use
  std::vector<uint32_t> depth = {};          // by terminal; kOutside: no member
  std::vector<std::vector<size_t>> below{};  // by terminal: old edges from there that are not gone
  std::vector<uint8_t> hangs = {};           // by terminal: an old edge leads there that may still be used
  std::vector<uint32_t> uses = {};           // by arc
  std::vector<PathEdge> edges = {};
  uint32_t members = 1;
};

TreePatcher::TreePatcher(const Network& network, std::vector<int64_t> left, std::vector<int64_t> supply)
    : network_(network),
      condition_(network),
      left_(std::move(left)),
      supply_(std::move(supply)),
      reserved_(left_.size(), 0),
      entering_(left_.size()) {}

TreePatcher::Patched TreePatcher::patch(std::span<const BrokenTree> broken) {
  Patched patched(broken.size());
  std::vector<size_t> waiting(broken.size());
  std::iota(waiting.begin(), waiting.end(), size_t{0});
  std::vector<int> tries(broken.size(), 0);
  // Arcs that broken trees still use are kept for them while others are patched.
  for (const BrokenTree& tree : broken) reserve(tree, 1);
  size_t batch_size = 1;
  while (!waiting.empty()) {
    std::vector<size_t> batch, later;
    for (const size_t i : waiting) {
      if (batch.size() == batch_size) {
        later.push_back(i);
        continue;
      }
      // A tree that is patched now needs no reserve: its old edges take that room themselves.
      reserve(broken[i], -1);
      ++tries[i];
      patched[i] = patch_one(broken[i]);
      if (!patched[i]) continue;
      book(broken[i], *patched[i], 1);
      batch.push_back(i);
    }
    // One check for all of the batch. Batches grow while guesses are right.
    const bool all_kept = undo_overdraft(broken, batch, patched);
    batch_size = all_kept ? std::min(2 * batch_size, kMaxBatch) : std::max<size_t>(1, batch_size / 2);
    waiting.clear();
    // A tree that was undone is tried again with the cut that is known now, a few times.
    for (const size_t i : batch) {
      if (patched[i] || tries[i] >= kMaxTries) continue;
      reserve(broken[i], 1);
      waiting.push_back(i);
    }
    waiting.insert(waiting.end(), later.begin(), later.end());
  }
  return patched;
}

// Until the cut condition holds, the last trees of the batch that overdraw the violated cut are undone.
bool TreePatcher::undo_overdraft(std::span<const BrokenTree> broken, std::span<const size_t> batch, Patched& patched) {
  bool all_kept = true;
  while (const auto violated = condition_.find_violated({.capacity = left_, .supply = supply_})) {
    all_kept = false;
    const VertexSet& cut = *violated;
    const auto enters = [&](uint32_t a) { return cut[network_.arcs()[a].head] && !cut[network_.arcs()[a].tail]; };
    // The cut is known from now on: its arcs remember it, and no tree enters it a second time.
    int64_t shortage = 0;
    for (uint32_t t = 0; t < network_.terminal_count(); ++t) shortage += cut[t] ? 0 : supply_[t];
    for (uint32_t a = 0; a < left_.size(); ++a) {
      if (!enters(a)) continue;
      shortage -= left_[a];
      entering_[a].push_back(static_cast<uint32_t>(cuts_.size()));
    }
    // The last trees that overdraw it are undone. Before the batch the cut held, so these are enough.
    for (size_t i = batch.size(); shortage > 0 && i-- > 0;) {
      auto& edges = patched[batch[i]];
      if (!edges) continue;
      int64_t overdraft = cut[broken[batch[i]].root] ? 0 : -1;
      for (const PathEdge& edge : *edges) overdraft += std::ranges::count_if(edge.arcs, enters);
      if (overdraft <= 0) continue;
      shortage -= overdraft * broken[batch[i]].units;
      book(broken[batch[i]], *edges, -1);
      edges.reset();
    }
    CHECK(shortage <= 0) << "a cut was violated before trees were patched";
    cuts_.push_back(cut);
  }
  return all_kept;
}

void TreePatcher::book(const BrokenTree& tree, std::span<const PathEdge> edges, int64_t sign) {
  for (const PathEdge& edge : edges) {
    for (const uint32_t a : edge.arcs) left_[a] -= sign * tree.units;
  }
  supply_[tree.root] -= sign * tree.units;
}

void TreePatcher::reserve(const BrokenTree& tree, int64_t sign) {
  for (const PathEdge& edge : tree.edges) {
    if (edge.is_gone) continue;
    for (const uint32_t a : edge.arcs) reserved_[a] += sign * tree.units;
  }
}

// Whether the tree may take this path: there is room, and no known cut is entered that holds a member already.
bool TreePatcher::allows(const Growing& tree, std::span<const uint32_t> arcs) const {
  for (size_t i = 0; i < arcs.size(); ++i) {
    // The path may cross an arc several times, and the tree may cross it already.
    const int64_t own =
        1 + tree.uses[arcs[i]] + std::count(arcs.begin(), arcs.begin() + static_cast<ptrdiff_t>(i), arcs[i]);
    if (own * tree.old.units > left_[arcs[i]]) return false;
    // A known cut that holds a member has been entered, or holds the root: a second entry would overdraw it.
    for (const uint32_t c : entering_[arcs[i]]) {
      const VertexSet& cut = cuts_[c];
      for (uint32_t t = 0; t < network_.terminal_count(); ++t) {
        if (cut[t] && tree.depth[t] != kOutside) return false;
      }
    }
  }
  return true;
}

void TreePatcher::attach(Growing& tree, PathEdge edge) const {
  for (const uint32_t a : edge.arcs) ++tree.uses[a];
  tree.depth[edge.to] = tree.depth[edge.from] + 1;
  ++tree.members;
  tree.edges.push_back(std::move(edge));
}

// The old edges below a new member, as far as they may be used.
void TreePatcher::follow(Growing& tree, uint32_t from) const {
  std::vector<uint32_t> queue{from};
  for (size_t i = 0; i < queue.size(); ++i) {
    // An edge that may not be used cuts off the part below it; its end is then the topmost of that part.
    for (const size_t e : tree.below[queue[i]]) {
      const PathEdge& edge = tree.old.edges[e];
      if (tree.depth[edge.to] != kOutside) continue;
      if (!allows(tree, edge.arcs)) {
        tree.hangs[edge.to] = 0;
        continue;
      }
      attach(tree, edge);
      queue.push_back(edge.to);
    }
  }
}

// Backwards from `to`, through switches, to the member nearest to the root; of several ways to it, the shortest, and
// then the one whose scarcest arc has most left.
std::optional<std::vector<uint32_t>> TreePatcher::find_path(const Growing& tree, uint32_t to) const {
  // Room is what the tree itself and, while it spares them, other broken trees leave.
  const auto room = [&](uint32_t a) {
    return left_[a] - int64_t{tree.uses[a]} * tree.old.units - (tree.spares ? std::max<int64_t>(reserved_[a], 0) : 0);
  };
  struct Way {
    uint32_t hops;
    int64_t width;
    uint32_t vertex;
    bool operator<(const Way& other) const {
      if (hops != other.hops) return hops > other.hops;
      return width != other.width ? width < other.width : vertex > other.vertex;
    }
  };
  // Dijkstra's algorithm backwards, by hops and then by width. It stops at members; a terminal outside passes nothing
  // on.
  std::priority_queue<Way> ways;
  std::vector<uint32_t> via(network_.vertex_count(), kOutside);  // the arc by which a vertex goes on to `to`
  std::vector<uint8_t> settled(network_.vertex_count(), 0);
  std::vector<std::pair<uint32_t, int64_t>> best(network_.vertex_count(), {kOutside, 0});
  ways.push({.hops = 0, .width = INT64_MAX, .vertex = to});
  std::optional<std::vector<uint32_t>> found;
  uint32_t found_depth = kOutside;
  while (!ways.empty()) {
    const Way way = ways.top();
    ways.pop();
    if (settled[way.vertex]) continue;
    settled[way.vertex] = 1;
    if (network_.is_terminal(way.vertex) && way.vertex != to) {
      // A member nearer to the root is better, even on a longer path; of one depth the first is the shortest.
      if (tree.depth[way.vertex] >= found_depth) continue;
      std::vector<uint32_t> path;
      for (uint32_t v = way.vertex; v != to; v = network_.arcs()[path.back()].head) path.push_back(via[v]);
      if (!allows(tree, path)) continue;
      found = std::move(path);
      found_depth = tree.depth[way.vertex];
      continue;
    }
    for (const uint32_t a : network_.in_arcs(way.vertex)) {
      const uint32_t tail = network_.arcs()[a].tail;
      if (settled[tail] || room(a) < tree.old.units) continue;
      if (network_.is_terminal(tail) && tree.depth[tail] == kOutside) continue;
      // Fewer hops are better; of as many, the wider way.
      const std::pair<uint32_t, int64_t> reached{way.hops + 1, std::min(way.width, room(a))};
      const auto& known = best[tail];
      if (known.first < reached.first || (known.first == reached.first && known.second >= reached.second)) continue;
      best[tail] = reached;
      via[tail] = a;
      ways.push({.hops = reached.first, .width = reached.second, .vertex = tail});
    }
  }
  return found;
}

// Joins one part that is cut off, by its topmost rank if that is possible.
bool TreePatcher::join_some(Growing& tree) const {
  // The topmost rank of a part keeps all edges of the part. Another one takes along only what hangs below it.
  for (const bool topmost : {true, false}) {
    for (uint32_t t = 0; t < network_.terminal_count(); ++t) {
      if (tree.depth[t] != kOutside || (tree.hangs[t] == 0) != topmost) continue;
      auto path = find_path(tree, t);
      if (!path) continue;
      const uint32_t from = network_.arcs()[path->front()].tail;
      attach(tree, {.from = from, .to = t, .arcs = std::move(*path)});
      follow(tree, t);
      return true;
    }
  }
  return false;
}

std::optional<std::vector<PathEdge>> TreePatcher::patch_one(const BrokenTree& old) {
  const uint32_t terminals = network_.terminal_count();
  // First with what other broken trees use left free, then with all there is.
  for (const bool spares : {true, false}) {
    Growing tree{.old = old,
                 .spares = spares,
                 .depth = std::vector<uint32_t>(terminals, kOutside),
                 .below = std::vector<std::vector<size_t>>(terminals),
                 .hangs = std::vector<uint8_t>(terminals, 0),
                 .uses = std::vector<uint32_t>(left_.size(), 0)};
    // A terminal that some old edge leads to hangs on another; one without is the topmost of its part.
    for (size_t e = 0; e < old.edges.size(); ++e) {
      const PathEdge& edge = old.edges[e];
      if (edge.is_gone) continue;
      tree.below[edge.from].push_back(e);
      tree.hangs[edge.to] = 1;
    }
    // The part of the root stays; then one part after the other is joined to it.
    tree.depth[old.root] = 0;
    follow(tree, old.root);
    while (tree.members < terminals && join_some(tree)) {
    }
    // A tree without any old edge is no patched one: it is packed anew with the others.
    const bool any_old = std::ranges::any_of(tree.edges, [](const PathEdge& edge) { return edge.origin != SIZE_MAX; });
    if (tree.members == terminals && any_old) return std::move(tree.edges);
  }
  return std::nullopt;
}

}  // namespace banyan::plan
