// Grows one tree from its root, breadth first, straight through the switches, inside what is left.
//
// Level by level, every terminal that a path of enough capacity can reach joins the tree, by the path that leaves the
// largest part of its scarcest arc free, and rather out of terminals that have no trees of their own to come. Ties go
// to the terminal next after the parent in cyclic order, which spreads the load of different roots. A terminal behind a
// switch that some member can reach over much wider arcs waits for those: so a box is entered once over the network and
// filled from inside. A path runs from a member through switches to a terminal outside. The cut ledger vetoes paths that
// would make the remaining trees impossible, as far as it knows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/plan/cut_ledger.h"
#include "banyan/plan/network.h"

namespace banyan {

class TreeGrower {
 public:
  struct Edge {
    uint32_t from = 0, to = 0;              // terminals
    uint32_t path_begin = 0, path_end = 0;  // into path_arcs()
  };
  struct Limits {
    std::optional<uint32_t> max_height = {};
    // Asked after each edge, the last of edges(); false takes it back (the asker has taught the ledger why). The asker
    // may lower the capacity left of other arcs meanwhile. Absent: never asked.
    std::function<bool()> keeps_last_edge = {};
  };

  // `left` is the capacity left by arc, `initial` what it was at first, `supply` what each terminal still owes; all
  // three outlive the grower.
  TreeGrower(const Network& network, std::span<const int64_t> left, std::span<const int64_t> initial,
             std::span<const int64_t> supply, CutLedger& ledger);

  // True when the tree reaches every terminal. Otherwise the accessors show how far it came.
  bool grow(uint32_t root, int64_t units, const Limits& limits);

  std::span<const Edge> edges() const { return edges_; }  // parents before children
  std::span<const uint32_t> path_arcs() const { return path_arcs_; }
  std::span<const uint32_t> path_of(const Edge& edge) const {
    return std::span(path_arcs_).subspan(edge.path_begin, edge.path_end - edge.path_begin);
  }
  std::span<const uint32_t> arc_uses() const { return uses_; }   // how often the tree crosses each arc
  std::span<const uint8_t> members() const { return members_; }  // by vertex
  uint32_t height() const { return height_; }

 private:
  struct Candidate {
    double score = 0;  // the least comfort along the path
    uint32_t tie = 0;
    uint32_t from = 0, to = 0;
    uint32_t path_begin = 0, path_end = 0;  // into scratch_
    bool operator<(const Candidate& other) const;
  };

  bool has_room(uint32_t arc) const { return left_[arc] >= units_ * (int64_t{uses_[arc]} + 1); }
  double comfort(uint32_t arc) const;
  double score(std::span<const uint32_t> path) const;
  void explore(uint32_t member);
  void offer(uint32_t member, uint32_t to, uint32_t last_arc);
  void close(uint32_t arc);
  void reopen();
  void grow_level(std::span<const uint32_t> frontier, const Limits& limits);
  bool has_wider_way(const Candidate& candidate) const;
  void feed_switches(uint32_t member);
  bool join(const Candidate& candidate, const Limits& limits);
  std::span<const uint32_t> path_of(const Candidate& candidate) const {
    return std::span(scratch_).subspan(candidate.path_begin, candidate.path_end - candidate.path_begin);
  }

  const Network& network_;
  std::span<const int64_t> left_, supply_;
  std::vector<double> inverse_initial_;
  CutLedger& ledger_;

  uint32_t root_ = 0;
  int64_t units_ = 0;
  uint32_t height_ = 0;
  std::vector<Edge> edges_;
  std::vector<uint32_t> path_arcs_, uses_, used_arcs_;
  std::vector<uint8_t> members_;
  std::vector<uint32_t> depth_;    // by member
  std::vector<uint32_t> feeders_;  // by vertex: how many members have an arc into it
  bool patient_ = true;            // whether terminals wait for wider ways
  bool waiting_ = false;           // whether one does
  std::vector<uint8_t> closed_;    // by arc: the ledger refuses it to this tree for good
  std::vector<uint32_t> closed_arcs_;

  std::vector<Candidate> heap_;
  std::vector<uint32_t> scratch_;      // paths of the candidates of a level
  std::vector<uint32_t> via_;          // by switch: the arc by which the exploration came
  std::vector<double> width_;          // by switch: the score of the path up to it
  std::vector<uint32_t> switch_hops_;  // by switch: stamp of the exploration, for reuse without clearing
  std::vector<uint32_t> seen_switches_;
  std::vector<uint8_t> retry_;  // by member: a path of it was lost to capacity, others may exist
};

}  // namespace banyan
