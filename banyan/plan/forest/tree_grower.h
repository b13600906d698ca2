// Grows one tree from its root, breadth first, straight through the switches, inside what is left.
//
// Level by level, every terminal that a path of enough capacity can reach joins the tree, by the path that leaves the
// largest part of its scarcest arc free, and rather out of terminals that have no trees of their own to come. Ties go
// to the terminal next after the parent in cyclic order, which spreads the load of different roots. A terminal behind a
// switch that some member can reach over much wider arcs, or on a shorter path, waits for those: so a box, or what is
// behind a leaf switch, is entered once over the network and filled from inside. A path runs from a member through
// switches to a terminal outside. The cut ledger vetoes paths that would make the remaining trees impossible, as far as
// it knows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/forest/cut_ledger.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

class TreeGrower {
 public:
  struct Edge {
    uint32_t from = 0, to = 0;              // terminals
    uint32_t path_begin = 0, path_end = 0;  // into path_arcs()
  };
  // The paths that a terminal waits for although it could join now: much wider ones only; also one through a single
  // switch; or any shorter one.
  enum class Waits { wider, one_switch, shorter };
  struct Limits {
    std::optional<uint32_t> max_height = {};
    Waits waits_for = Waits::shorter;
    bool detours = false;  // a tree that is stuck goes on by whatever path there is, however long
  };
  // Arcs that a tree and its images under symmetries use alike: crossing one of them takes capacity off each.
  struct ArcClasses {
    std::vector<uint32_t> of;     // by arc
    std::vector<int64_t> weight;  // by class: how often each arc of it is taken when one of them is crossed
    static ArcClasses one_each(size_t arcs);
  };

  // `left` is the capacity left by arc, `initial` what it was at first, `supply` what each terminal still owes; all
  // three outlive the grower.
  TreeGrower(const Network& network, std::span<const int64_t> left, std::span<const int64_t> initial,
             std::span<const int64_t> supply, CutLedger& ledger, ArcClasses classes);
  TreeGrower(const Network& network, std::span<const int64_t> left, std::span<const int64_t> initial,
             std::span<const int64_t> supply, CutLedger& ledger)
      : TreeGrower(network, left, initial, supply, ledger, ArcClasses::one_each(network.arcs().size())) {}

  // A path that a tree begins with.
  using Path = std::span<const uint32_t>;

  // True when the tree reaches every terminal. Otherwise the accessors show how far it came. It begins with the paths
  // of `start`, parents before children, for which there must be room; where the ledger refuses one of them, the tree
  // does not grow.
  bool grow(uint32_t root, int64_t units, const Limits& limits, std::span<const Path> start = {});

  std::span<const Edge> edges() const { return edges_; }  // parents before children
  std::span<const uint32_t> path_arcs() const { return path_arcs_; }
  std::span<const uint32_t> path_of(const Edge& edge) const {
    return std::span(path_arcs_).subspan(edge.path_begin, edge.path_end - edge.path_begin);
  }
  std::span<const uint32_t> class_uses() const { return uses_; }  // how often the tree crosses each class of arcs
  // The same by arc, where each is a class.
  std::span<const uint32_t> arc_uses() const { return uses_; }
  std::span<const uint8_t> members() const { return members_; }  // by vertex
  uint32_t height() const { return height_; }
  uint64_t work() const { return work_; }  // arcs looked at so far, over all trees

 private:
  struct Candidate {
    double score = 0;  // the least comfort along the path
    uint32_t tie = 0;
    uint32_t from = 0, to = 0;
    uint32_t path_begin = 0, path_end = 0;  // into scratch_; without end, only the last arc is settled
    uint32_t last_arc = 0;
    bool operator<(const Candidate& other) const;
  };

  // The capacity that the tree takes of the arc once it crosses the arc's class `more` times more.
  int128 taken(uint32_t arc, uint32_t more) const {
    const uint32_t id = classes_.of[arc];
    return int128{units_} * classes_.weight[id] * (int64_t{uses_[id]} + more);
  }
  bool has_room(uint32_t arc, uint32_t more = 1) const { return left_[arc] >= taken(arc, more); }
  double comfort(uint32_t arc) const;
  double score(std::span<const uint32_t> path) const;
  void begin_tree(uint32_t root, int64_t units);
  void open_ways(std::span<const uint32_t> frontier, const Limits& limits);
  double best_way(uint32_t vertex);
  bool settle(Candidate& candidate);
  void offer_all(std::span<const uint32_t> frontier, const Limits& limits);
  void offer_over(uint32_t last_arc);
  bool serve(const Limits& limits);
  void explore(uint32_t member);
  void offer(uint32_t member, uint32_t to, uint32_t last_arc);
  void close(uint32_t arc);
  void reopen();
  std::optional<uint32_t> join_by_detour(const Limits& limits);
  bool find_detour(uint32_t to, const Limits& limits);
  void grow_level(std::span<const uint32_t> frontier, const Limits& limits);
  bool has_better_way(const Candidate& candidate, const Limits& limits) const;
  void feed_switches();
  void join(std::span<const uint32_t> path);
  void add_edge(std::span<const uint32_t> path);
  std::span<const uint32_t> path_of(const Candidate& candidate) const {
    return std::span(scratch_).subspan(candidate.path_begin, candidate.path_end - candidate.path_begin);
  }

  const Network& network_;
  std::span<const int64_t> left_, supply_;
  std::vector<double> inverse_initial_;
  CutLedger& ledger_;
  const ArcClasses classes_;

  uint64_t work_ = 0;
  uint32_t root_ = 0;
  int64_t units_ = 0;
  uint32_t height_ = 0;
  std::vector<Edge> edges_;
  std::vector<uint32_t> path_arcs_, uses_, used_;  // uses_ by class; used_: the classes that it is not zero for
  std::vector<uint8_t> members_;
  std::vector<uint32_t> depth_;     // by member
  std::vector<uint32_t> fed_from_;  // by vertex: arcs from the nearest member, through switches
  std::vector<uint32_t> feeding_;
  bool patient_ = true;          // whether terminals wait for better ways
  bool waiting_ = false;         // whether one does
  std::vector<uint8_t> closed_;  // by arc: the ledger refuses it to this tree for good
  std::vector<uint32_t> closed_arcs_;

  // While a level grows: per switch the arcs by which the frontier comes to it in the fewest hops, as a heap by the
  // least comfort on the way. Scores only fall meanwhile, so that a top that is out of date sinks when it is looked at.
  struct Way {
    double score = 0;
    uint32_t arc = 0;
    bool operator<(const Way& other) const { return score != other.score ? score < other.score : arc > other.arc; }
  };
  std::vector<std::vector<Way>> ways_;
  std::vector<uint32_t> way_switches_;  // those that have ways
  std::vector<uint8_t> in_frontier_;    // by vertex

  std::vector<Candidate> heap_;
  std::vector<uint32_t> scratch_;      // paths of the candidates of a level
  std::vector<uint32_t> via_;          // by switch: the arc by which the exploration came
  std::vector<double> width_;          // by switch: the score of the path up to it
  std::vector<uint32_t> switch_hops_;  // by switch: stamp of the exploration, for reuse without clearing
  std::vector<uint32_t> seen_switches_;
  std::vector<uint8_t> retry_;  // by member: a path of it was lost to capacity, others may exist
};

}  // namespace banyan::plan
