// The cheapest tree from a root to all participants that may branch at switches: a Steiner arborescence.
//
// Given lengths of arcs, every edge of the tree is a shortest path through switches from one node of the tree to the
// next. Once it is known which switches are nodes, the cheapest tree is a least arborescence between known nodes
// (Edmonds 1967); which switches those are is hard to know in general. Tried are all, those that a tree grown by always
// joining the nearest participant uses (Takahashi, Matsuyama 1980), those that the cheapest tree so far uses, and none.
// If switches hang on ranks or on a few levels of other switches, that is the best tree or close to it. Beyond 400
// nodes only the tree that always joins the nearest is tried.
//
// O(nodes^3) for a root at worst, and the shortest paths once for given lengths; beyond 400 nodes O(arcs log arcs).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/plan/graph/network.h"

namespace banyan::plan {

class SteinerTrees {
 public:
  // `branching`: switches at which trees may branch, besides the participants. The network outlives this.
  SteinerTrees(const Network& network, std::span<const uint32_t> branching);

  // Lengths of at least 0, by arc.
  void set_lengths(std::span<const double> lengths);

  struct Tree {
    double length = 0;
    std::vector<std::vector<uint32_t>> paths = {};  // of arcs, one per edge, parents before children
  };
  Tree find(uint32_t root) const;

  // The approximate cost of finding a tree, in numbers looked at.
  uint64_t work() const {
    return is_large() ? 32 * network_.arcs().size() : 16 * nodes_.size() * nodes_.size() + network_.arcs().size();
  }

 private:
  using Nodes = std::vector<uint32_t>;  // places in nodes_
  static constexpr uint32_t kNoPlace = UINT32_MAX;
  bool is_large() const { return nodes_.size() > 400; }
  Tree nearest_first(uint32_t root) const;
  Tree between(uint32_t root, const Nodes& switches, Nodes& used) const;
  Nodes switches_of(const Tree& tree) const;
  std::vector<uint32_t> path(uint32_t from, uint32_t to) const;
  double distance(uint32_t from, uint32_t to) const { return distance_[from * nodes_.size() + to]; }

  const Network& network_;
  std::vector<uint32_t> nodes_;  // participants, then the switches that branch
  std::vector<uint32_t> place_;  // by vertex: where it stands in nodes_
  std::vector<double> lengths_;
  std::vector<double> distance_;            // from node to node, through switches only
  std::vector<std::vector<uint32_t>> via_;  // by node and vertex: the arc by which the shortest path from it comes
};

// For each node but the root the parent in the cheapest arborescence, by a square of costs from parent to child;
// infinite where there is no edge. Parents of the root, and of all where there is none, are the node itself.
std::vector<uint32_t> least_arborescence(std::span<const double> costs, uint32_t root);

}  // namespace banyan::plan
