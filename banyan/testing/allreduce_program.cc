#include "banyan/testing/allreduce_program.h"

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <map>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/testing/program_rows.h"

namespace banyan::testing {
double allreduce_throughput(const Fabric& fabric, const Collective& collective) {
  const auto participants = collective.participants();
  std::map<NodeId, size_t> number;
  for (size_t i = 0; i < participants.size(); ++i) number[participants[i]] = i;
  std::vector<NodeId> nodes(participants.begin(), participants.end());
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    if (!fabric.is_rank(NodeId{v})) nodes.push_back(NodeId{v});
  }
  std::vector<Link> links;
  for (const Link& link : fabric.links()) {
    const bool gone = (fabric.is_rank(link.from) && !number.contains(link.from)) ||
                      (fabric.is_rank(link.to) && !number.contains(link.to));
    if (!gone) links.push_back(link);
  }
  const int ranks = static_cast<int>(participants.size()), arcs = static_cast<int>(links.size());
  const auto share = [&](int way, int arc) { return ranks + way * arcs + arc; };
  const auto flow = [&](int way, int rank, int arc) { return ranks + 2 * arcs + (way * ranks + rank) * arcs + arc; };
  const int columns = ranks + 2 * arcs + 2 * ranks * arcs;
  ProgramRows rows;
  for (int e = 0; e < arcs; ++e) {
    const int both = rows.add(-COIN_DBL_MAX, static_cast<double>(links[e].bandwidth.bytes_per_second()) * 1e-9);
    rows.put(both, share(0, e), 1);
    rows.put(both, share(1, e), 1);
  }
  for (int way = 0; way < 2; ++way) {
    // Way 0 brings pieces along the links to a rank; way 1 is the same against them.
    const auto tail = [&](const Link& link) { return way == 0 ? link.from : link.to; };
    const auto head = [&](const Link& link) { return way == 0 ? link.to : link.from; };
    for (const NodeId node : nodes) {
      // Copies may leave a switch that multicasts, and sums one that reduces.
      const Node& what = fabric.node(node);
      if (fabric.is_rank(node) || (way == 0 ? what.multicast : what.reduce)) continue;
      const int balance = rows.add(0, 0);
      for (int e = 0; e < arcs; ++e) {
        if (links[e].to == node) rows.put(balance, share(way, e), 1);
        if (links[e].from == node) rows.put(balance, share(way, e), -1);
      }
    }
    for (int t = 0; t < ranks; ++t) {
      for (int e = 0; e < arcs; ++e) {
        const int within = rows.add(-COIN_DBL_MAX, 0);
        rows.put(within, flow(way, t, e), 1);
        rows.put(within, share(way, e), -1);
      }
      for (const NodeId node : nodes) {
        // What a root gives out beyond what passes through it is at most what it roots; the sink takes all the rest.
        const bool is_sink = node == participants[t];
        const int kept = is_sink ? rows.add(0, COIN_DBL_MAX) : rows.add(-COIN_DBL_MAX, 0);
        for (int e = 0; e < arcs; ++e) {
          const double sign = is_sink ? -1 : 1;
          if (tail(links[e]) == node) rows.put(kept, flow(way, t, e), sign);
          if (head(links[e]) == node) rows.put(kept, flow(way, t, e), -sign);
        }
        for (int r = 0; r < ranks; ++r) {
          const bool counts = is_sink ? r != t : participants[r] == node;
          if (counts) rows.put(kept, r, -1);
        }
      }
    }
  }
  const CoinPackedMatrix matrix(false, rows.row.data(), rows.column.data(), rows.factor.data(),
                                static_cast<CoinBigIndex>(rows.row.size()));
  CoinPackedMatrix full = matrix;
  full.setDimensions(static_cast<int>(rows.low.size()), columns);
  std::vector<double> cost(static_cast<size_t>(columns), 0), zero(static_cast<size_t>(columns), 0),
      most(static_cast<size_t>(columns), COIN_DBL_MAX);
  for (int r = 0; r < ranks; ++r) cost[static_cast<size_t>(r)] = -1;
  ClpSimplex clp;
  clp.setLogLevel(0);
  clp.loadProblem(full, zero.data(), most.data(), cost.data(), rows.low.data(), rows.high.data());
  clp.initialSolve();
  CHECK(clp.isProvenOptimal());
  return -clp.objectiveValue() * 1e9;
}

}  // namespace banyan::testing
