// The cuts that are known to bind, and how much more each of them can take.
//
// For a vertex set X that holds a terminal, slack(X) is what the cut condition (cut_condition.h) leaves over: capacity
// entering X + supply in X - all that is owed. A tree of multiplicity m rooted at r that enters X e times uses up
// m * (e - [r outside X]): entering once is what it owes. So a tree may be committed only if that is at most slack(X).
//
// Cuts are learnt from failed checks; each one makes the next tree avoid that failure. While a tree grows the ledger
// counts how often it has entered each cut, and refuses the path that would overdraw one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

class CutLedger {
 public:
  explicit CutLedger(const Network& network) : network_(network), entering_(network.arcs().size()) {}

  // Adds a cut unless it is known. Only between trees, or with the uses and members of the tree that is growing.
  // Returns false when it was known.
  bool learn(const VertexSet& cut, int64_t slack, std::span<const uint32_t> arc_uses = {},
             std::span<const uint8_t> members = {});

  bool knows(const VertexSet& cut) const { return known_.contains(key(cut)); }
  size_t size() const { return cuts_.size(); }
  uint64_t work() const { return work_; }  // arcs looked at for the questions below so far
  // The slack of every cut, to be put back when an attempt fails.
  std::vector<int64_t> slacks() const;
  void restore_slacks(std::span<const int64_t> slacks);
  // A committed tree of `units` rooted at `root` is taken back, with all arcs that it crosses.
  void take_back(uint32_t root, int64_t units, std::span<const uint32_t> arcs);
  // Recounts the slack of every cut with `slack`.
  template <typename Slack>
  void recount(const Slack& slack) {
    for (Cut& cut : cuts_) cut.slack = slack(cut.inside);
  }

  // Starts counting for a tree of `units` rooted at `root`.
  void begin_tree(uint32_t root, int64_t units);
  // True if the growing tree may take this path (arc numbers), which ends at terminal `to`.
  bool allows(std::span<const uint32_t> path, uint32_t to) const;
  void take(std::span<const uint32_t> path, uint32_t to);
  // True if the growing tree may take this arc on a path that ends at terminal `to` and enters no cut twice.
  bool allows_arc(uint32_t arc, uint32_t to) const;
  // True if the cuts that this arc enters refuse it to the growing tree for good, whatever path leads to it.
  bool closes(uint32_t arc) const;

  // The growing tree is complete and committed with this many units, at most those it was begun with.
  void commit(int64_t units);

 private:
  static std::string key(const VertexSet& cut) { return {cut.begin(), cut.end()}; }
  struct Cut {
    VertexSet inside;
    int64_t slack = 0;
    // State of the growing tree:
    int32_t entered = 0;
    int32_t joined = 0;  // above 0 once a terminal inside has joined; says nothing where the root is inside
    bool holds_root = false;
  };
  bool overdraws(const Cut& cut, int32_t entering, bool joins) const {
    const int64_t owed = !cut.holds_root && (cut.joined > 0 || joins) ? 1 : 0;
    return int128{units_} * (cut.entered + entering - owed) > cut.slack;
  }
  int32_t count_entering(uint32_t cut, std::span<const uint32_t> path) const;

  const Network& network_;
  std::vector<Cut> cuts_;
  std::unordered_set<std::string> known_;
  std::vector<std::vector<uint32_t>> entering_;  // by arc: the cuts that it enters
  uint32_t root_ = 0;
  int64_t units_ = 0;
  mutable uint64_t work_ = 0;
};

}  // namespace banyan::plan
