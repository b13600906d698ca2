// Flows out of one root, and the tight cut around it: what the planners of a single root's trees share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// Units of one path from the root to a terminal.
struct Way {
  std::vector<uint32_t> arcs;
  int64_t units = 0;
};

// A flow from the root that grows along shortest paths (Edmonds and Karp 1972). Cost of a path: O(arcs).
class RootFlow {
 public:
  // The network outlives the flow.
  RootFlow(const Network& network, std::span<const int64_t> capacity, uint32_t root);

  // Sends up to `units` more to the terminal; returns how many of them there was no room for.
  int64_t send(uint32_t terminal, int64_t units);
  int64_t on(uint32_t arc) const { return flow_[arc]; }
  // After a send() that fell short: true if the root could still reach the vertex.
  bool still_reaches(uint32_t vertex) const;

  // Takes a path to the terminal, of at most `units` units, out of the flow.
  Way take_way(uint32_t terminal, int64_t units);

 private:
  bool search(uint32_t terminal);
  void search_flow(uint32_t terminal);
  void begin_search();
  void reach(uint32_t v, uint32_t half);
  template <typename Visit>
  void walk_back(uint32_t terminal, const Visit& visit) const;

  const Network* network_;
  std::vector<int64_t> room_, flow_;
  uint32_t root_;
  // Indexed by vertex, from the last search: twice the arc, and one more if it was walked against its direction.
  std::vector<uint32_t> came_by_, queue_;
};

// The units of a root, dealt out to hubs.
struct Dealt {
  int64_t parts = 1;           // into which each unit was cut so that all hubs get the same
  std::vector<int64_t> units;  // by place in the list of hubs
  RootFlow flow;               // that takes them there
};

// The same units for every hub, in parts, if there are not more than `most_units` then; otherwise whole units, the same
// for every hub up to one unit. If the capacity is not enough for that, the hubs that can be reached get more. Nothing
// when the hubs cannot take `supply` together.
std::optional<Dealt> deal_out(const Network& network, std::span<const int64_t> capacity, uint32_t root,
                              std::span<const uint32_t> hubs, int64_t supply, int64_t most_units);

// The root's side of the cut nearest to it that parts it from the terminal opposite in number and has no capacity to
// spare over `supply`. The root alone where there is no such cut, or where most terminals would be on the root's side.
VertexSet near_side(const Network& network, std::span<const int64_t> capacity, uint32_t root, int64_t supply);

}  // namespace banyan::plan
