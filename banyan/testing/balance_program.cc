#include "banyan/testing/balance_program.h"

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <map>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/testing/program_rows.h"

namespace banyan::testing {
namespace {

// From where pieces come to where they go, along the links or against them.
struct Way {
  NodeId from, to;
  double bandwidth;
};

}  // namespace

double tree_throughput(const Fabric& fabric, const Collective& collective, bool balanced) {
  const auto participants = collective.participants();
  const auto takes_part = [&](NodeId id) {
    return !fabric.is_rank(id) || std::ranges::find(participants, id) != participants.end();
  };
  std::vector<Way> ways;
  double most = 0;
  for (const Link& link : fabric.links()) {
    if (!takes_part(link.from) || !takes_part(link.to)) continue;
    const double bandwidth = static_cast<double>(link.bandwidth.bytes_per_second());
    most = std::max(most, bandwidth);
    ways.push_back(collective.reduces() ? Way{link.to, link.from, bandwidth} : Way{link.from, link.to, bandwidth});
  }
  // Columns: the throughput, what links carry, then by sink and link its flow.
  const int arcs = static_cast<int>(ways.size()), ranks = static_cast<int>(participants.size());
  const auto flow = [&](int sink, int arc) { return 1 + arcs + sink * arcs + arc; };
  ProgramRows matrix;
  for (int e = 0; e < arcs; ++e) matrix.put(matrix.add(0, ways[e].bandwidth / most), 1 + e, 1);
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    const NodeId node{v};
    if (!takes_part(node)) continue;
    if (balanced && !fabric.is_rank(node)) {
      const int even = matrix.add(0, 0);
      for (int e = 0; e < arcs; ++e) {
        if (ways[e].to == node) matrix.put(even, 1 + e, 1);
        if (ways[e].from == node) matrix.put(even, 1 + e, -1);
      }
    }
    const auto place = std::ranges::find(participants, node);
    const double weight = place == participants.end()
                              ? 0
                              : static_cast<double>(collective.weights()[place - participants.begin()]) /
                                    static_cast<double>(collective.total_weight());
    for (int t = 0; t < ranks; ++t) {
      // The sink takes in all that others root; all else gives out what it takes in and what it roots.
      const bool is_sink = participants[t] == node;
      const int kept = matrix.add(0, 0);
      for (int e = 0; e < arcs; ++e) {
        if (ways[e].to == node) matrix.put(kept, flow(t, e), 1);
        if (ways[e].from == node) matrix.put(kept, flow(t, e), -1);
      }
      matrix.put(kept, 0, is_sink ? weight - 1 : weight);
    }
  }
  for (int t = 0; t < ranks; ++t) {
    for (int e = 0; e < arcs; ++e) {
      const int within = matrix.add(-COIN_DBL_MAX, 0);
      matrix.put(within, flow(t, e), 1);
      matrix.put(within, 1 + e, -1);
    }
  }
  const int columns = 1 + arcs + ranks * arcs;
  CoinPackedMatrix full(false, matrix.row.data(), matrix.column.data(), matrix.factor.data(),
                        static_cast<CoinBigIndex>(matrix.row.size()));
  full.setDimensions(static_cast<int>(matrix.low.size()), columns);
  const auto count = static_cast<size_t>(columns);
  std::vector<double> cost(count, 0), zero(count, 0), unbounded(count, COIN_DBL_MAX);
  cost[0] = -1;
  ClpSimplex clp;
  clp.setLogLevel(0);
  clp.loadProblem(full, zero.data(), unbounded.data(), cost.data(), matrix.low.data(), matrix.high.data());
  clp.initialSolve();
  CHECK(clp.isProvenOptimal());
  return -clp.objectiveValue() * most;
}

}  // namespace banyan::testing
