// GrowingTree: a tree that grows path by path, and the capacity that it takes.
//
// A tree of so many units crosses arcs; each crossing takes the units off the arc and, where the tree has images under
// symmetries, off all arcs of its class. The capacity that is left for others is counted elsewhere, and changes only
// between trees.
//
// While a tree grows: edges come parents before children, members are the root and the ends of edges, and the tree has
// room on every arc that it crosses, which callers see to (add). Memory: linear in arcs and vertices; kept from tree to
// tree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// The units that trees may take. The numbers change between trees; what the spans look at outlives who holds them.
struct TreeRoom {
  std::span<const int64_t> left;     // by arc: the capacity that is left
  std::span<const int64_t> initial;  // by arc: the capacity at first
  std::span<const int64_t> supply;   // by terminal: what its own trees to come need
};

class GrowingTree {
 public:
  struct Edge {
    uint32_t from = 0, to = 0;              // terminals
    uint32_t path_begin = 0, path_end = 0;  // into path_arcs_
  };
  // Arcs that a tree and its images under symmetries use alike: crossing one of them takes capacity off each.
  struct ArcClasses {
    std::vector<uint32_t> of;     // by arc
    std::vector<int64_t> weight;  // by class: how often each arc of it is taken when one of them is crossed
    static ArcClasses one_each(size_t arcs);
  };
  using Path = std::span<const uint32_t>;  // arcs, from a member through switches to a terminal
  static constexpr double kNoRoom = -std::numeric_limits<double>::infinity();

  GrowingTree(const Network& network, const TreeRoom& room, ArcClasses classes);

  // Forgets the last tree.
  void begin(uint32_t root, int64_t units);
  // Adds a path, for which there is room, and the terminal at its end.
  void add(Path path);

  // True if the tree may cross the arc's class `more` times more.
  bool has_room(uint32_t arc, uint32_t more = 1) const { return room_.left[arc] >= taken(arc, more); }
  // The part of the arc that would be left, less one where its tail will need it for trees of its own.
  double comfort(uint32_t arc) const {
    const uint32_t tail = network_.arcs()[arc].tail;
    const double reserve = network_.is_terminal(tail) && tail != root_ && room_.supply[tail] > 0 ? 1 : 0;
    return static_cast<double>(room_.left[arc] - taken(arc, 1)) * inverse_initial_[arc] - reserve;
  }
  // The comfort of the path's scarcest arc, or kNoRoom.
  double score(Path path) const;
  // One over the capacity at first; zero where there was none.
  double inverse_initial(uint32_t arc) const { return inverse_initial_[arc]; }

  uint32_t root() const { return root_; }
  bool is_complete() const { return edges_.size() + 1 == network_.terminal_count(); }
  bool is_member(uint32_t vertex) const { return members_[vertex] != 0; }
  std::span<const uint8_t> members() const { return members_; }  // by vertex
  uint32_t depth(uint32_t member) const { return depth_[member]; }
  uint32_t height() const { return height_; }
  std::span<const Edge> edges() const { return edges_; }
  Path path_of(const Edge& edge) const {
    return Path(path_arcs_).subspan(edge.path_begin, edge.path_end - edge.path_begin);
  }
  // The times that the tree crosses each class of arcs; each arc, where each is a class.
  std::span<const uint32_t> uses() const { return uses_; }

 private:
  // The capacity that the tree takes of the arc once it crosses the arc's class `more` times more.
  int128 taken(uint32_t arc, uint32_t more) const {
    const uint32_t id = classes_.of[arc];
    return int128{units_} * classes_.weight[id] * (int64_t{uses_[id]} + more);
  }

  const Network& network_;
  const TreeRoom room_;
  const ArcClasses classes_;
  std::vector<double> inverse_initial_;
  uint32_t root_ = 0;
  int64_t units_ = 0;
  uint32_t height_ = 0;
  std::vector<Edge> edges_;
  std::vector<uint32_t> path_arcs_, uses_, used_;  // uses_ by class; used_: the classes that it is not zero for
  std::vector<uint8_t> members_;
  std::vector<uint32_t> depth_;  // by member
};

}  // namespace banyan::plan
