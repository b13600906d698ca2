// An order of nodes in which each comes after what it needs and after its stream's one before, else by time.
//
// A cycle, which only a wrong guess or a damaged trace makes, is broken at the earliest node that hangs and whose
// stream has got so far: what it needs and has not come is dropped. Ties go to the lower number.
//
// Complexity O((nodes + needs) log nodes).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace banyan::job::kineto {

struct NodeGraph {
  std::vector<int64_t> times;                        // by node
  std::vector<uint32_t> before;                      // by node: of its stream, UINT32_MAX for none
  std::vector<std::pair<uint32_t, uint32_t>> needs;  // node, what it needs; UINT32_MAX: dropped
};

struct NodeOrder {
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> broken;  // nodes at which a cycle was broken
  uint64_t dropped = 0;          // needs
};

// Marks the needs that it drops. `before` alone must make no cycle.
NodeOrder order_nodes(NodeGraph& graph);

}  // namespace banyan::job::kineto
