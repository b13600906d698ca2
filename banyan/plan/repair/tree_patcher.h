// Patches trees that have lost an edge or two: everything else of them stays.
//
// A tree whose edge is gone falls into the part that hangs together with the root, and parts that are cut off. Each of
// these is joined again by one new path from a member to its topmost rank, so that its own edges stay; where there is
// no such path, to another rank of it, which takes along what hangs below it. Paths go straight through switches,
// prefer members near the root, and leave free what other broken trees still use, while there is another path.
//
// Trees are patched as guesses and checked together by the cut condition, as in plan/forest/packing.h: if what is owed
// could no longer be packed, the violated cut is learnt, and the last trees that overdraw it are undone and patched
// again. From then on no tree enters that cut a second time; an old edge that does counts as gone. So a tree that only
// overdraws a cut, since the fabric has become faster, is patched in the same way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct PathEdge {
  uint32_t from = 0, to = 0;        // terminals
  std::vector<uint32_t> arcs = {};  // the path between them
  size_t origin = SIZE_MAX;         // the edge of the old tree that it is; SIZE_MAX: new
  bool is_gone = false;             // a link of it
};

struct BrokenTree {
  uint32_t root = 0;
  int64_t units = 0;
  std::vector<PathEdge> edges = {};  // parents before children; some terminals may hang nowhere
};

class TreePatcher {
 public:
  // `left` and `supply` satisfy the cut condition, and switches are balanced; supply counts the broken trees.
  TreePatcher(const Network& network, std::vector<int64_t> left, std::vector<int64_t> supply);

  // Indexed by tree: its edges, parents before children, or nothing if it could not be patched, or no edge would stay.
  using Patched = std::vector<std::optional<std::vector<PathEdge>>>;
  Patched patch(std::span<const BrokenTree> broken);

  // The capacity and the supply left for the trees that were not patched.
  const std::vector<int64_t>& left() const { return left_; }
  const std::vector<int64_t>& supply() const { return supply_; }

 private:
  struct Growing;  // the tree that is being patched

  std::optional<std::vector<PathEdge>> patch_one(const BrokenTree& tree);
  bool allows(const Growing& tree, std::span<const uint32_t> arcs) const;
  void attach(Growing& tree, PathEdge edge) const;
  void follow(Growing& tree, uint32_t from) const;
  std::optional<std::vector<uint32_t>> find_path(const Growing& tree, uint32_t to) const;
  bool join_some(Growing& tree) const;
  void book(const BrokenTree& tree, std::span<const PathEdge> edges, int64_t sign);
  void reserve(const BrokenTree& tree, int64_t sign);
  bool undo_overdraft(std::span<const BrokenTree> broken, std::span<const size_t> batch, Patched& patched);

  const Network& network_;
  CutCondition condition_;
  std::vector<int64_t> left_, supply_, reserved_;
  std::vector<VertexSet> cuts_;                  // that are known to bind
  std::vector<std::vector<uint32_t>> entering_;  // by arc: the cuts that it enters
};

}  // namespace banyan::plan
