#include "banyan/plan/tree_grower.h"

#include <algorithm>
#include <limits>

namespace banyan {
namespace {

constexpr uint32_t kUnseen = UINT32_MAX;
// A candidate whose score has fallen by less since it was offered keeps its place: re-sorting a whole level for every
// terminal that joins would cost more than the finer balance brings.
constexpr double kScoreTolerance = 0.04;
// An arc of this many times the capacity is worth waiting a level for.
constexpr double kMuchWider = 1.5;
constexpr double kNoRoom = -std::numeric_limits<double>::infinity();

}  // namespace

bool TreeGrower::Candidate::operator<(const Candidate& other) const {
  if (score != other.score) return score < other.score;
  if (tie != other.tie) return tie > other.tie;
  if (from != other.from) return from > other.from;
  return to > other.to;
}

TreeGrower::TreeGrower(const Network& network, std::span<const int64_t> left, std::span<const int64_t> initial,
                       std::span<const int64_t> supply, CutLedger& ledger)
    : network_(network), left_(left), supply_(supply), ledger_(ledger) {
  for (const int64_t capacity : initial)
    inverse_initial_.push_back(capacity > 0 ? 1.0 / static_cast<double>(capacity) : 0);
  uses_.assign(network.arcs().size(), 0);
  depth_.assign(network.vertex_count(), 0);
  feeders_.assign(network.vertex_count(), 0);
  closed_.assign(network.arcs().size(), 0);
  members_.assign(network.vertex_count(), 0);
  retry_.assign(network.vertex_count(), 0);
  via_.resize(network.vertex_count());
  width_.resize(network.vertex_count());
  switch_hops_.assign(network.vertex_count(), kUnseen);
}

// The part of the arc that would be left, less one where its tail will need it for trees of its own.
double TreeGrower::comfort(uint32_t arc) const {
  const uint32_t tail = network_.arcs()[arc].tail;
  const double reserve = network_.is_terminal(tail) && tail != root_ && supply_[tail] > 0 ? 1 : 0;
  return static_cast<double>(left_[arc] - units_ * (int64_t{uses_[arc]} + 1)) * inverse_initial_[arc] - reserve;
}

double TreeGrower::score(std::span<const uint32_t> path) const {
  double least = std::numeric_limits<double>::infinity();
  for (const uint32_t arc : path) {
    if (!has_room(arc)) return kNoRoom;
    least = std::min(least, comfort(arc));
  }
  return least;
}

void TreeGrower::offer(uint32_t member, uint32_t to, uint32_t last_arc) {
  const uint32_t begin = static_cast<uint32_t>(scratch_.size());
  scratch_.push_back(last_arc);
  for (uint32_t v = network_.arcs()[last_arc].tail; v != member; v = network_.arcs()[via_[v]].tail)
    scratch_.push_back(via_[v]);
  std::reverse(scratch_.begin() + begin, scratch_.end());
  const std::span path = std::span(scratch_).subspan(begin);
  if (!ledger_.allows(path, to)) {
    if (ledger_.closes(last_arc)) close(last_arc);
    scratch_.resize(begin);
    return;
  }
  const uint32_t terminals = network_.terminal_count();
  heap_.push_back({.score = score(path),
                   .tie = (to + terminals - member) % terminals,
                   .from = member,
                   .to = to,
                   .path_begin = begin,
                   .path_end = static_cast<uint32_t>(scratch_.size())});
}

// Offers every terminal that `member` can reach, by a path of fewest switches and, among those, the widest.
void TreeGrower::explore(uint32_t member) {
  seen_switches_.clear();
  std::vector<uint32_t>& reached = seen_switches_;
  const auto visit = [&](uint32_t v, uint32_t hops, double width) {
    for (const uint32_t a : network_.out_arcs(v)) {
      const uint32_t head = network_.arcs()[a].head;
      if (members_[head] || closed_[a] || !has_room(a)) continue;
      if (network_.is_terminal(head)) {
        offer(member, head, a);
        continue;
      }
      const double through = std::min(width, comfort(a));
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
  visit(member, 0, std::numeric_limits<double>::infinity());
  // Switches are visited in the order of their distance, so all of one distance know their widest way by then.
  for (size_t i = 0; i < reached.size(); ++i) visit(reached[i], switch_hops_[reached[i]], width_[reached[i]]);
  for (const uint32_t v : reached) switch_hops_[v] = kUnseen;
}

void TreeGrower::close(uint32_t arc) {
  if (closed_[arc]) return;
  closed_[arc] = 1;
  closed_arcs_.push_back(arc);
}

void TreeGrower::reopen() {
  for (const uint32_t arc : closed_arcs_) closed_[arc] = 0;
  closed_arcs_.clear();
}

// Makes the candidate an edge; false when the asker wants it back.
bool TreeGrower::join(const Candidate& candidate, const Limits& limits) {
  const std::span path = path_of(candidate);
  const uint32_t begin = static_cast<uint32_t>(path_arcs_.size());
  for (const uint32_t arc : path) {
    if (uses_[arc]++ == 0) used_arcs_.push_back(arc);
  }
  ledger_.take(path, candidate.to);
  members_[candidate.to] = 1;
  depth_[candidate.to] = depth_[candidate.from] + 1;
  path_arcs_.insert(path_arcs_.end(), path.begin(), path.end());
  edges_.push_back({.from = candidate.from,
                    .to = candidate.to,
                    .path_begin = begin,
                    .path_end = static_cast<uint32_t>(path_arcs_.size())});
  if (!limits.keeps_last_edge || limits.keeps_last_edge()) {
    height_ = std::max(height_, depth_[candidate.to]);
    feed_switches(candidate.to);
    return true;
  }
  edges_.pop_back();
  path_arcs_.resize(begin);
  members_[candidate.to] = 0;
  ledger_.give_back(path, candidate.to);
  for (const uint32_t arc : path) --uses_[arc];
  reopen();
  return false;
}

void TreeGrower::feed_switches(uint32_t member) {
  for (const uint32_t a : network_.out_arcs(member)) ++feeders_[network_.arcs()[a].head];
}

bool TreeGrower::has_wider_way(const Candidate& candidate) const {
  double narrowest = 0;  // as an inverse
  for (const uint32_t a : path_of(candidate)) narrowest = std::max(narrowest, inverse_initial_[a]);
  for (const uint32_t a : network_.in_arcs(candidate.to)) {
    const uint32_t tail = network_.arcs()[a].tail;
    const bool at_hand = network_.is_terminal(tail) ? members_[tail] != 0 : feeders_[tail] > 0;
    if (at_hand && kMuchWider * inverse_initial_[a] < narrowest && has_room(a)) return true;
  }
  return false;
}

// Lets terminals join from the frontier until none can. Scores of waiting candidates only
// fall while others join, so a candidate that comes up with a much outdated score goes back in its place.
void TreeGrower::grow_level(std::span<const uint32_t> frontier, const Limits& limits) {
  for (const uint32_t member : frontier) retry_[member] = !limits.max_height || depth_[member] < *limits.max_height;
  for (bool again = true; again;) {
    again = false;
    heap_.clear();
    scratch_.clear();
    for (const uint32_t member : frontier) {
      if (retry_[member]) explore(member);
      retry_[member] = 0;
    }
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      Candidate best = heap_.back();
      heap_.pop_back();
      if (members_[best.to]) continue;
      const std::span path = path_of(best);
      const double now = score(path);
      if (now == kNoRoom || !ledger_.allows(path, best.to)) {
        if (ledger_.closes(path.back())) {
          close(path.back());
        } else {
          retry_[best.from] = 1;
        }
        continue;
      }
      if (patient_ && path.size() > 1 && has_wider_way(best)) {
        waiting_ = true;
        continue;
      }
      if (now < best.score - kScoreTolerance) {
        best.score = now;
        heap_.push_back(best);
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      again |= join(best, limits);
    }
  }
  for (const uint32_t member : frontier) retry_[member] = 0;
}

bool TreeGrower::grow(uint32_t root, int64_t units, const Limits& limits) {
  for (const uint32_t arc : used_arcs_) uses_[arc] = 0;
  used_arcs_.clear();
  reopen();
  std::fill(members_.begin(), members_.end(), 0);
  edges_.clear();
  path_arcs_.clear();
  root_ = root;
  units_ = units;
  height_ = 0;
  members_[root] = 1;
  ledger_.begin_tree(root, units);
  depth_[root] = 0;
  waiting_ = false;
  std::fill(feeders_.begin(), feeders_.end(), 0);
  feed_switches(root);
  std::vector<uint32_t> frontier{root};
  while (edges_.size() + 1 < network_.terminal_count()) {
    const size_t before = edges_.size();
    grow_level(frontier, limits);
    if (edges_.size() == before && waiting_) {
      // Whoever waits does so in vain, the wide ways are full: any member may serve it.
      frontier.assign(1, root);
      for (const Edge& edge : edges_) frontier.push_back(edge.to);
      patient_ = false;
      grow_level(frontier, limits);
      patient_ = true;
      waiting_ = false;
    }
    if (edges_.size() == before) return false;
    frontier.clear();
    for (size_t i = before; i < edges_.size(); ++i) frontier.push_back(edges_[i].to);
  }
  return true;
}

}  // namespace banyan
