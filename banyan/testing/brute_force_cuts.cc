#include "banyan/testing/brute_force_cuts.h"

#include <string>
#include <vector>

#include "banyan/base/error.h"

namespace banyan::testing {
namespace {

// Nodes that stay, numbered from 0 with the participants first, so that a set of them is the bits of a number.
struct SmallGraph {
  struct Arc {
    uint32_t tail_bit = 0, head_bit = 0;
    uint64_t bandwidth = 0;
  };
  size_t node_count = 0;
  uint32_t participants = 0;      // the set of all of them
  std::vector<uint64_t> weights;  // by participant
  std::vector<Arc> arcs;
};

SmallGraph graph_of(const Fabric& fabric, const Collective& collective) {
  constexpr size_t kGone = ~size_t{0};
  std::vector<size_t> number(fabric.nodes().size(), kGone);
  SmallGraph graph;
  for (const NodeId id : collective.participants()) number[index(id)] = graph.node_count++;
  for (uint32_t i = 0; i < fabric.nodes().size(); ++i) {
    if (!fabric.is_rank(NodeId{i})) number[i] = graph.node_count++;
  }
  if (graph.node_count > kMaxBruteForceNodes) {
    throw Error(ErrorCode::unsupported, "brute force over the cuts of " + std::to_string(graph.node_count) +
                                            " nodes; it takes " + std::to_string(kMaxBruteForceNodes) + " at most");
  }
  graph.participants = (uint32_t{1} << collective.participants().size()) - 1;
  graph.weights.assign(collective.weights().begin(), collective.weights().end());
  for (const Link& link : fabric.links()) {
    const size_t tail = number[index(link.from)], head = number[index(link.to)];
    if (tail == kGone || head == kGone) continue;
    graph.arcs.push_back({uint32_t{1} << tail, uint32_t{1} << head, link.bandwidth.bytes_per_second()});
  }
  return graph;
}

uint64_t weight_inside(const SmallGraph& graph, uint32_t set) {
  uint64_t weight = 0;
  for (size_t i = 0; i < graph.weights.size(); ++i) {
    if ((set >> i & 1) != 0) weight += graph.weights[i];
  }
  return weight;
}

uint64_t bandwidth_leaving(const SmallGraph& graph, uint32_t set) {
  uint64_t total = 0;
  for (const SmallGraph::Arc& arc : graph.arcs) {
    if ((set & arc.tail_bit) != 0 && (set & arc.head_bit) == 0) total += arc.bandwidth;
  }
  return total;
}

Fraction worst_cut_when_spreading(const Fabric& fabric, const Collective& collective) {
  const SmallGraph graph = graph_of(fabric, collective);
  // The best ratio so far, weight over bandwidth. Products stay below 2^25 * 2^75.
  uint64_t best_weight = 0, best_bandwidth = 1;
  const uint32_t set_count = uint32_t{1} << graph.node_count;
  for (uint32_t set = 1; set < set_count; ++set) {
    if ((graph.participants & ~set) == 0) continue;
    const uint64_t weight = weight_inside(graph, set);
    if (weight == 0) continue;
    const uint64_t bandwidth = bandwidth_leaving(graph, set);
    if (bandwidth == 0) {
      throw Error(ErrorCode::invalid_input, "the participants cannot reach each other without passing other ranks");
    }
    if (int128{weight} * best_bandwidth > int128{best_weight} * bandwidth) {
      best_weight = weight;
      best_bandwidth = bandwidth;
    }
  }
  return Fraction(int128{best_weight}, int128{collective.total_weight()} * best_bandwidth);
}

}  // namespace

Fraction brute_force_seconds_per_byte(const Fabric& fabric, const Collective& collective) {
  Fraction total;
  if (collective.reduces()) total = total + worst_cut_when_spreading(fabric.reversed(), collective);
  if (collective.spreads()) total = total + worst_cut_when_spreading(fabric, collective);
  return total;
}

}  // namespace banyan::testing
