// TreeSource: a packing that hands its trees over one at a time.
//
// The trees of n ranks have n^2 edges, a gigabyte at 16,384 ranks. A source makes a tree when its turn comes, or gives
// it away, so that these edges stand in memory once: in the schedule that is made of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "banyan/plan/forest/packing.h"

namespace banyan::plan {

class TreeSource {
 public:
  virtual ~TreeSource() = default;

  struct Sizes {
    size_t paths = 0, path_arcs = 0;  // path_arcs: of all paths together
    size_t trees = 0, edges = 0;      // edges: of all trees together
  };
  virtual Sizes sizes() const = 0;
  virtual uint32_t height() const = 0;  // of the highest tree

  using Path = std::span<const uint32_t>;  // arcs
  // Visits every path, in the order of the numbers by which trees name them, from 0 on.
  virtual void visit_paths(const std::function<void(Path)>& visit) const = 0;

  struct Tree {
    uint32_t root = 0;
    int64_t units = 0;
    uint32_t height = 0;
    std::span<const uint32_t> paths;  // one per edge, parents before children; until the visit ends
  };
  // Visits every tree, roots in any order, trees of one root always in the same. To be called once: trees may be gone
  // afterwards.
  virtual void visit_trees(const std::function<void(const Tree&)>& visit) = 0;
};

// The trees of a packing; the memory of each is given back when it has been visited.
std::unique_ptr<TreeSource> hand_over(Packing packing);

// All trees at once, sorted by root.
Packing collect(TreeSource& source);

}  // namespace banyan::plan
