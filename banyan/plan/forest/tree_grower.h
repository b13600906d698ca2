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

#include "banyan/plan/forest/cut_ledger.h"
#include "banyan/plan/forest/growing_tree.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

class TreeGrower {
 public:
  // The paths that a terminal waits for although it could join now: much wider ones only; also one through a single
  // switch; or any shorter one.
  enum class Waits { wider, one_switch, shorter };
  struct Limits {
    std::optional<uint32_t> max_height = {};
    Waits waits_for = Waits::shorter;
    bool detours = false;  // a tree that is stuck goes on by whatever path there is, however long
  };
  TreeGrower(const Network& network, const TreeRoom& room, CutLedger& ledger, GrowingTree::ArcClasses classes);
  // Each arc is a class.
  TreeGrower(const Network& network, const TreeRoom& room, CutLedger& ledger)
      : TreeGrower(network, room, ledger, GrowingTree::ArcClasses::one_each(network.arcs().size())) {}

  // True when the tree reaches every terminal. Otherwise tree() shows how far it came. It begins with the paths
  // of `start`, parents before children, for which there must be room; where the ledger refuses one of them, the tree
  // does not grow.
  bool grow(uint32_t root, int64_t units, const Limits& limits, std::span<const GrowingTree::Path> start = {});

  const GrowingTree& tree() const { return tree_; }
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

  // True if the tree may grow over the arc, as far as is known without the path that leads to it.
  bool is_open(uint32_t arc) const { return !closed_[arc] && tree_.has_room(arc); }
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
  CutLedger& ledger_;
  GrowingTree tree_;
  uint64_t work_ = 0;
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
