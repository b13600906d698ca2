#include "banyan/plan/forest/tree_grower.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace banyan::plan {
namespace {

constexpr uint32_t kUnseen = UINT32_MAX;
// A candidate whose score has fallen by less since it was offered keeps its place: re-sorting a whole level for every
// terminal that joins would cost more than the finer balance brings.
constexpr double kScoreTolerance = 0.04;
// An arc of this many times the capacity is worth waiting a level for.
constexpr double kMuchWider = 1.5;
constexpr uint64_t kHeapWork = 16;  // taking a candidate off the heap, in arcs looked at
constexpr double kNoRoom = GrowingTree::kNoRoom;

}  // namespace

bool TreeGrower::Candidate::operator<(const Candidate& other) const {
  if (score != other.score) return score < other.score;
  if (tie != other.tie) return tie > other.tie;
  if (from != other.from) return from > other.from;
  return to > other.to;
}

TreeGrower::TreeGrower(const Network& network, const TreeRoom& room, CutLedger& ledger, GrowingTree::ArcClasses classes)
    : network_(network),
      ledger_(ledger),
      tree_(network, room, std::move(classes)),
      fed_from_(network.vertex_count(), kUnseen),
      closed_(network.arcs().size(), 0),
      ways_(network.vertex_count()),
      in_frontier_(network.vertex_count(), 0),
      via_(network.vertex_count()),
      width_(network.vertex_count()),
      switch_hops_(network.vertex_count(), kUnseen),
      retry_(network.vertex_count(), 0) {}

// How a level grows. Every terminal outside that an arc leads to, from a member of the frontier or a switch that the
// frontier reaches, is a candidate; its score is the comfort of the scarcest arc on the best way to it. Candidates wait
// in a heap and join best first (serve). A switch keeps all arcs by which the frontier comes to it (open_ways) and
// names the best of them at the moment (best_way): so a candidate is an arc, and its path is only settled when its turn
// comes. Where the ledger refuses the best path, single members look for others (explore). What joined is the
// next frontier.

// Offers the terminal at the end of `last_arc` by the path on which explore() has come to the arc's tail.
void TreeGrower::offer(uint32_t member, uint32_t to, uint32_t last_arc) {
  const uint32_t begin = static_cast<uint32_t>(scratch_.size());
  scratch_.push_back(last_arc);
  for (uint32_t v = network_.arcs()[last_arc].tail; v != member; v = network_.arcs()[via_[v]].tail)
    scratch_.push_back(via_[v]);
  std::reverse(scratch_.begin() + begin, scratch_.end());
  const std::span path = std::span(scratch_).subspan(begin);
  // A path that would overdraw a known cut is no candidate. If the cut refuses the arc for good, nobody comes over it
  // again.
  if (!ledger_.allows(path, to)) {
    if (ledger_.closes(last_arc)) close(last_arc);
    scratch_.resize(begin);
    return;
  }
  // Ties go to the terminal next after the parent in cyclic order, which spreads the load of different roots.
  const uint32_t terminals = network_.terminal_count();
  heap_.push_back({.score = tree_.score(path),
                   .tie = (to + terminals - member) % terminals,
                   .from = member,
                   .to = to,
                   .path_begin = begin,
                   .path_end = static_cast<uint32_t>(scratch_.size()),
                   .last_arc = last_arc});
}

// Offers every terminal that `member` can reach, by a path of fewest switches and, among those, the widest.
void TreeGrower::explore(uint32_t member) {
  seen_switches_.clear();
  std::vector<uint32_t>& reached = seen_switches_;
  const auto visit = [&](uint32_t v, uint32_t hops, double width) {
    work_ += network_.out_arcs(v).size();
    for (const uint32_t a : network_.out_arcs(v)) {
      const uint32_t head = network_.arcs()[a].head;
      if (tree_.is_member(head) || !is_open(a)) continue;
      if (network_.is_terminal(head)) {
        offer(member, head, a);
        continue;
      }
      // A switch keeps the arc that came to it first; another arc takes its place only if it is as near and wider.
      const double through = std::min(width, tree_.comfort(a));
      if (switch_hops_[head] == kUnseen) {
        switch_hops_[head] = hops + 1;
        reached.push_back(head);
      } else if (switch_hops_[head] != hops + 1 || width_[head] >= through) {
        continue;
      }
      via_[head] = a;
      width_[head] = through;
    }
  };
  // Breadth first from the one member, so that paths through the fewest switches are found first.
  visit(member, 0, std::numeric_limits<double>::infinity());
  // Switches are visited in the order of their distance, so all of one distance know their widest way by then.
  for (size_t i = 0; i < reached.size(); ++i) visit(reached[i], switch_hops_[reached[i]], width_[reached[i]]);
  for (const uint32_t v : reached) switch_hops_[v] = kUnseen;
}

// Once a cut has nothing left for the growing tree, it has no more until the next tree: closed arcs stay closed.
void TreeGrower::close(uint32_t arc) {
  if (closed_[arc]) return;
  closed_[arc] = 1;
  closed_arcs_.push_back(arc);
}

void TreeGrower::reopen() {
  for (const uint32_t arc : closed_arcs_) closed_[arc] = 0;
  closed_arcs_.clear();
}

void TreeGrower::join(std::span<const uint32_t> path) {
  add_edge(path);
  feeding_.assign(1, network_.arcs()[path.back()].head);
  feed_switches();
}

// Books the path and its terminal, in the ledger as well.
void TreeGrower::add_edge(GrowingTree::Path path) {
  ledger_.take(path, network_.arcs()[path.back()].head);
  tree_.add(path);
}

// Lowers the distances of switches from the nearest member, by the members in feeding_.
void TreeGrower::feed_switches() {
  for (const uint32_t member : feeding_) fed_from_[member] = 0;
  for (size_t i = 0; i < feeding_.size(); ++i) {
    const uint32_t v = feeding_[i], next = fed_from_[v] + 1;
    for (const uint32_t a : network_.out_arcs(v)) {
      const uint32_t head = network_.arcs()[a].head;
      if (network_.is_terminal(head) || fed_from_[head] <= next) continue;
      fed_from_[head] = next;
      feeding_.push_back(head);
    }
  }
}

// Whether members can reach the candidate's terminal over a much wider last arc, or on a shorter path.
bool TreeGrower::has_better_way(const Candidate& candidate, const Limits& limits) const {
  // Widths are compared as inverses: the narrowest arc of the path has the largest.
  double narrowest = 0;  // as an inverse
  for (const uint32_t a : path_of(candidate)) narrowest = std::max(narrowest, tree_.inverse_initial(a));
  const size_t length = candidate.path_end - candidate.path_begin;
  for (const uint32_t a : network_.in_arcs(candidate.to)) {
    const uint32_t tail = network_.arcs()[a].tail;
    const uint32_t fed = network_.is_terminal(tail) ? (tree_.is_member(tail) ? 0 : kUnseen) : fed_from_[tail];
    if (fed == kUnseen || !tree_.has_room(a)) continue;
    // A much wider arc counts only where it starts at a member or one switch behind a member.
    if (fed <= 1 && kMuchWider * tree_.inverse_initial(a) < narrowest) return true;
    // A shorter path counts as far as the limits let the terminal wait: any, one through a single switch, or none.
    const size_t wanted = limits.waits_for == Waits::shorter      ? length - 1
                          : limits.waits_for == Waits::one_switch ? 2
                                                                  : 0;
    if (fed + 1 <= wanted && fed + 1 < length) return true;
  }
  return false;
}

// Finds the switches that the frontier reaches and the arcs that lead to each of them in the fewest hops.
void TreeGrower::open_ways(std::span<const uint32_t> frontier, const Limits& limits) {
  for (const uint32_t v : way_switches_) ways_[v].clear();
  way_switches_.clear();
  const auto visit = [&](uint32_t v, uint32_t hops, double score) {
    work_ += network_.out_arcs(v).size();
    for (const uint32_t a : network_.out_arcs(v)) {
      const uint32_t head = network_.arcs()[a].head;
      if (network_.is_terminal(head) || !is_open(a)) continue;
      if (switch_hops_[head] == kUnseen) {
        switch_hops_[head] = hops + 1;
        way_switches_.push_back(head);
      } else if (switch_hops_[head] != hops + 1) {
        continue;
      }
      ways_[head].push_back({.score = std::min(score, tree_.comfort(a)), .arc = a});
    }
  };
  // All of the frontier starts at once, but for members that stand at the greatest height already.
  for (const uint32_t member : frontier) {
    if (limits.max_height && tree_.depth(member) >= *limits.max_height) continue;
    in_frontier_[member] = 1;
    visit(member, 0, std::numeric_limits<double>::infinity());
  }
  // In the order of their distance, so all ways to a switch are known when it passes its best on.
  for (size_t i = 0; i < way_switches_.size(); ++i) {
    const uint32_t v = way_switches_[i];
    std::make_heap(ways_[v].begin(), ways_[v].end());
    visit(v, switch_hops_[v], ways_[v].front().score);
  }
  for (const uint32_t v : way_switches_) switch_hops_[v] = kUnseen;
}

// The score of the best way to a vertex as things are now; it stands on top then.
double TreeGrower::best_way(uint32_t vertex) {
  if (network_.is_terminal(vertex)) return std::numeric_limits<double>::infinity();
  std::vector<Way>& ways = ways_[vertex];
  // The top is the best if its score still holds. Scores only fall while a level grows, so an outdated top sinks and
  // the next one is looked at. Tails are a hop nearer to the frontier, so the recursion ends.
  while (!ways.empty()) {
    const uint32_t arc = ways.front().arc;
    const double now = is_open(arc) ? std::min(tree_.comfort(arc), best_way(network_.arcs()[arc].tail)) : kNoRoom;
    if (now == ways.front().score) return now;
    std::pop_heap(ways.begin(), ways.end());
    if (now == kNoRoom) {
      ways.pop_back();
      continue;
    }
    ways.back().score = now;
    std::push_heap(ways.begin(), ways.end());
  }
  return kNoRoom;
}

// Offers the head of an arc from a member or switch that has a way.
void TreeGrower::offer_over(uint32_t last_arc) {
  const auto& [tail, to, link] = network_.arcs()[last_arc];
  if (tree_.is_member(to) || !is_open(last_arc)) return;
  const double way = best_way(tail);
  if (way == kNoRoom) return;
  // The member at which the best way begins now is needed for ties.
  uint32_t from = tail;
  while (!network_.is_terminal(from)) from = network_.arcs()[ways_[from].front().arc].tail;
  const uint32_t terminals = network_.terminal_count();
  heap_.push_back({.score = std::min(way, tree_.comfort(last_arc)),
                   .tie = (to + terminals - from) % terminals,
                   .from = from,
                   .to = to,
                   .last_arc = last_arc});
}

// Offers all that the frontier can reach, over arcs straight from its members and out of the switches it has ways to.
void TreeGrower::offer_all(std::span<const uint32_t> frontier, const Limits& limits) {
  open_ways(frontier, limits);
  const auto offer_from = [&](uint32_t v) {
    work_ += network_.out_arcs(v).size();
    for (const uint32_t a : network_.out_arcs(v)) {
      if (network_.is_terminal(network_.arcs()[a].head)) offer_over(a);
    }
  };
  for (const uint32_t member : frontier) {
    if (in_frontier_[member]) offer_from(member);
    in_frontier_[member] = 0;
  }
  for (const uint32_t v : way_switches_) offer_from(v);
}

// Settles the path of a candidate by the best way there is now; false when there is none.
bool TreeGrower::settle(Candidate& candidate) {
  if (candidate.path_end > candidate.path_begin) return true;
  uint32_t v = network_.arcs()[candidate.last_arc].tail;
  if (best_way(v) == kNoRoom) return false;
  // The path runs back from the last arc over the best arc into each switch until it comes to a member.
  candidate.path_begin = static_cast<uint32_t>(scratch_.size());
  scratch_.push_back(candidate.last_arc);
  while (!network_.is_terminal(v)) {
    scratch_.push_back(ways_[v].front().arc);
    v = network_.arcs()[scratch_.back()].tail;
  }
  std::reverse(scratch_.begin() + candidate.path_begin, scratch_.end());
  candidate.path_end = static_cast<uint32_t>(scratch_.size());
  candidate.from = v;
  return true;
}

// Lets candidates join, best first, until none is left. Their scores only fall while others join, so a candidate that
// comes up with a much outdated score goes back in its place. True when any joined.
bool TreeGrower::serve(const Limits& limits) {
  bool any = false;
  std::make_heap(heap_.begin(), heap_.end());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    Candidate best = heap_.back();
    heap_.pop_back();
    work_ += kHeapWork;
    // A candidate of explore() brings its path; one of offer_all() gets the best path of this moment.
    const bool open = best.path_end == best.path_begin;
    if (tree_.is_member(best.to) || closed_[best.last_arc] || !settle(best)) continue;
    const std::span path = path_of(best);
    // Others have joined since the offer. If the path has lost its room or a cut refuses it now, either its last arc is
    // closed for this tree, or its member looks for another path later (explore).
    const double now = tree_.score(path);
    if (now == kNoRoom || !ledger_.allows(path, best.to)) {
      if (ledger_.closes(best.last_arc)) {
        close(best.last_arc);
      } else {
        retry_[best.from] = 1;
      }
      continue;
    }
    // A terminal with a better way to come waits. It is offered again by a later frontier, or once patience has ended.
    if (patient_ && path.size() > 1 && has_better_way(best, limits)) {
      waiting_ = true;
      continue;
    }
    // An outdated candidate goes back to its place in the order. A path that was settled just now is forgotten: another
    // one may be best by the next turn.
    if (now < best.score - kScoreTolerance) {
      best.score = now;
      if (open) {
        scratch_.resize(best.path_begin);
        best.path_end = best.path_begin;
      }
      heap_.push_back(best);
      std::push_heap(heap_.begin(), heap_.end());
      continue;
    }
    join(path);
    any = true;
  }
  return any;
}

// Lets terminals join from the frontier until none can: first by the best ways, of which there is one at a time for
// each switch; then, where the ledger refused those, by the ways of single members.
void TreeGrower::grow_level(std::span<const uint32_t> frontier, const Limits& limits) {
  const auto begin = [&] {
    heap_.clear();
    scratch_.clear();
  };
  // The best ways: one at a time for each switch.
  begin();
  offer_all(frontier, limits);
  serve(limits);
  // Members that lost a path look for others. Each further round has let a terminal join, so rounds end.
  for (bool again = true; again;) {
    begin();
    for (const uint32_t member : frontier) {
      if (retry_[member]) explore(member);
      retry_[member] = 0;
    }
    again = serve(limits);
  }
  for (const uint32_t member : frontier) retry_[member] = 0;
}

// Lets one terminal join by any path that there is room for and that no known cut refuses; nothing when there is none.
std::optional<uint32_t> TreeGrower::join_by_detour(const Limits& limits) {
  for (uint32_t i = 1; i < network_.terminal_count(); ++i) {
    const uint32_t to = (tree_.root() + i) % network_.terminal_count();
    if (tree_.is_member(to) || !find_detour(to, limits)) continue;
    const std::span path = scratch_;
    // The search saw each arc alone. The whole path may cross a class of arcs or enter a cut twice, so it is asked
    // again.
    if (tree_.score(path) == kNoRoom || !ledger_.allows(path, to)) continue;
    join(path);
    return to;
  }
  return std::nullopt;
}

// Walks back from the terminal to the nearest member over arcs that a path to it may take; the path is in
// scratch_ then.
bool TreeGrower::find_detour(uint32_t to, const Limits& limits) {
  seen_switches_.clear();
  scratch_.clear();
  const auto visit = [&](uint32_t v) {
    work_ += network_.in_arcs(v).size();
    for (const uint32_t a : network_.in_arcs(v)) {
      const uint32_t tail = network_.arcs()[a].tail;
      // The walk may end at any member below the height limit and passes each switch once.
      const bool usable = network_.is_terminal(tail)
                              ? tree_.is_member(tail) && (!limits.max_height || tree_.depth(tail) < *limits.max_height)
                              : switch_hops_[tail] == kUnseen;
      if (!usable || !is_open(a) || !ledger_.allows_arc(a, to)) continue;
      via_[tail] = a;
      if (network_.is_terminal(tail)) return std::optional(tail);
      switch_hops_[tail] = 0;
      seen_switches_.push_back(tail);
    }
    return std::optional<uint32_t>();
  };
  std::optional<uint32_t> from = visit(to);
  for (size_t i = 0; i < seen_switches_.size() && !from; ++i) from = visit(seen_switches_[i]);
  for (const uint32_t v : seen_switches_) switch_hops_[v] = kUnseen;
  if (!from) return false;
  // The arcs by which the walk came lead forward from the member to the terminal.
  for (uint32_t v = *from; v != to; v = network_.arcs()[via_[v]].head) scratch_.push_back(via_[v]);
  return true;
}

// Level by level until all terminals are members. When a level adds nothing, two things are tried, in this order: those
// that waited for better ways are served by any member; then one terminal joins by a detour, if detours are allowed,
// and levels go on from it. Each turn adds a member, leaves a level behind or ends.
//
// A tree that is still stuck then has overdrawn a cut, with one exception. Where the cut condition holds for the tree
// as it is, the theorem on growing batches promises a path to a terminal outside that no cut objects to, so no known
// one. Walking back from that terminal over arcs that known cuts allow finds a path; but it may find one that enters a
// cut twice, which is then refused.
bool TreeGrower::grow(uint32_t root, int64_t units, const Limits& limits, std::span<const GrowingTree::Path> start) {
  begin_tree(root, units);
  for (const GrowingTree::Path path : start) {
    if (!ledger_.allows(path, network_.arcs()[path.back()].head)) return false;
    add_edge(path);
  }
  if (tree_.is_complete()) return true;
  // Switches learn how far they are from the nearest member: better ways are judged by that (has_better_way).
  feeding_.assign(1, root);
  for (const GrowingTree::Edge& edge : tree_.edges()) feeding_.push_back(edge.to);
  feed_switches();
  // The members that the tree begins with spread in the order of their depth, as if they had grown.
  const size_t started = tree_.edges().size();
  const uint32_t deepest_start = tree_.height();
  uint32_t level = 0;
  std::vector<uint32_t> frontier{root};
  while (!tree_.is_complete()) {
    const size_t before = tree_.edges().size();
    grow_level(frontier, limits);
    if (tree_.edges().size() == before && waiting_ && level >= deepest_start) {
      // Whoever waits does so in vain, the wide ways are full: any member may serve it.
      frontier.assign(1, root);
      for (const GrowingTree::Edge& edge : tree_.edges()) frontier.push_back(edge.to);
      patient_ = false;
      grow_level(frontier, limits);
      patient_ = true;
      waiting_ = false;
    }
    // The next frontier is who has joined in this turn, and who of the given start stands on the next level.
    frontier.clear();
    ++level;
    for (size_t i = 0; i < started; ++i) {
      if (tree_.depth(tree_.edges()[i].to) == level) frontier.push_back(tree_.edges()[i].to);
    }
    for (size_t i = before; i < tree_.edges().size(); ++i) frontier.push_back(tree_.edges()[i].to);
    if (!frontier.empty()) continue;
    // Nobody joined and no part of the start is left. One terminal joins by a detour, or the tree is stuck.
    const std::optional<uint32_t> joined = limits.detours ? join_by_detour(limits) : std::nullopt;
    if (!joined) return false;
    frontier.assign(1, *joined);
    level = tree_.depth(*joined);
  }
  return true;
}

void TreeGrower::begin_tree(uint32_t root, int64_t units) {
  tree_.begin(root, units);
  ledger_.begin_tree(root, units);
  reopen();
  work_ += network_.vertex_count();
  waiting_ = false;
  std::fill(fed_from_.begin(), fed_from_.end(), kUnseen);
}

}  // namespace banyan::plan
