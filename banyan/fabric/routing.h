// Routing: which links a message from one rank to another crosses, as a network would send it.
//
// A path is a shortest one by links, of these a widest one (by its narrowest link), and of these one that a hash of the
// two ends and a salt picks link by link, as equal-cost multipath does: different pairs spread over equal paths, the
// same pair with the same salt always takes the same. It goes through switches only; if no such path exists (tori),
// through ranks as well. The planners of rings and trees ask for the first of the best paths instead, and for none that
// passes through a rank.
//
// Results are kept by switch: a path to a rank is one to a switch that the rank has a link from (its gate; a GPU may
// have two, NVSwitch and network), and a last link. So all ranks behind a switch share one search. Complexity: the
// first path to a switch costs a search over the switches that lead there and their links, any other the links of both
// ends and a logarithm for every switch. (Through ranks: a search over the whole fabric for every rank.) Memory: the
// results for the destinations asked for last, kMostKept bytes in all. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

class Routing {
 public:
  static constexpr size_t kMostKept = size_t{256} << 20;

  explicit Routing(Fabric fabric);

  // Appends the links of a path to `way`. `from` and `to` are different ranks.
  void find(NodeId from, NodeId to, uint64_t salt, std::vector<LinkId>& way);
  // Appends the links of the first of the best paths through switches only, by the order of links. False, and nothing
  // is appended, if all paths pass through a third rank.
  bool find_first(NodeId from, NodeId to, std::vector<LinkId>& way);
  // The bandwidth of the narrowest link of a best path through switches only; nothing if there is none.
  std::optional<Bandwidth> width(NodeId from, NodeId to);
  // The number of searches that were made: what a path costs besides the links of its ends.
  size_t searches() const { return searches_; }

 private:
  // The quality of the best path on from a node.
  struct Reach {
    uint32_t hops = UINT32_MAX;  // to the destination; UINT32_MAX: none
    uint64_t width = 0;          // bytes per second of the narrowest link of the widest shortest path
  };
  // A link that begins a best path, and the stop at its end (kDestination: the destination).
  struct Step {
    LinkId link{};
    uint32_t stop = 0;
  };
  // A node on paths to a destination, and its best steps: a run in Ways::steps.
  struct Stop {
    Reach reach;
    uint32_t first = 0, count = 0;
  };
  struct Ways {
    std::vector<NodeId> nodes;  // in order; switches alone, or all nodes where that does not lead from everywhere
    std::vector<Stop> stops;    // of these
    std::vector<Step> steps;
  };
  static constexpr uint32_t kDestination = UINT32_MAX;

  // A path that grows: picks among equal choices, as its hash says; without one, always the first.
  struct Path {
    std::optional<uint64_t> hash;
    std::vector<LinkId>& links;
    size_t one_of(size_t count);
  };

  // The switch that every path to a rank passes last, or the rank itself.
  NodeId only_gate_of(NodeId to) const;
  const Ways& ways_to(NodeId to, bool through_ranks);
  Ways search(NodeId to, bool through_ranks);
  // Puts the best first steps from `node` into first_steps_; none if no path leads on.
  Reach best_steps(NodeId node, NodeId to, const Ways& ways);
  // Puts the widest links between the two into first_steps_. Returns their bytes per second; 0 if there is none.
  uint64_t take_links(NodeId from, NodeId to);
  // Puts the switches that the best paths to a rank pass last into gates_; none if no path leads through switches.
  Reach find_gates(NodeId from, NodeId to);
  bool through_switches(NodeId from, NodeId to, Path& path);
  void walk(NodeId from, NodeId to, bool through_ranks, Path& path);

  Fabric fabric_;
  std::unordered_map<uint64_t, Ways> ways_;  // by destination, and whether through ranks
  size_t kept_ = 0;                          // bytes in ways_
  size_t searches_ = 0;
  std::vector<Reach> reaches_;     // by node: scratch of search(),
  std::vector<uint32_t> stop_of_;  // as this
  std::vector<Step> first_steps_;
  std::vector<NodeId> gates_;
};

}  // namespace banyan::fabric
