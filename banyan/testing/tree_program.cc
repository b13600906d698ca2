#include "banyan/testing/tree_program.h"

#include <ClpSimplex.hpp>
#include <algorithm>
#include <map>
#include <vector>

#include "banyan/base/check.h"

namespace banyan::testing {
namespace {

constexpr double kNever = 1e100;

// The part of a fabric that takes part, in one direction: gathering is spreading against the links.
struct Graph {
  struct Way {
    size_t from = 0, to = 0, link = 0;
  };
  size_t ranks = 0, nodes = 0;  // ranks come first
  std::vector<Way> ways;
  std::vector<bool> branches;  // by node
};

Graph graph_of(const Fabric& fabric, const Collective& collective, bool gathering) {
  Graph graph;
  std::map<NodeId, size_t> number;
  for (const NodeId id : collective.participants()) number.emplace(id, number.size());
  graph.ranks = number.size();
  graph.branches.assign(graph.ranks, true);
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    const Node& node = fabric.node(NodeId{v});
    if (fabric.is_rank(NodeId{v})) continue;
    number.emplace(NodeId{v}, number.size());
    graph.branches.push_back(gathering ? node.reduce : node.multicast);
  }
  graph.nodes = number.size();
  for (size_t l = 0; l < fabric.links().size(); ++l) {
    const Link& link = fabric.links()[l];
    if (!number.contains(link.from) || !number.contains(link.to)) continue;
    const size_t from = number[gathering ? link.to : link.from], to = number[gathering ? link.from : link.to];
    graph.ways.push_back({.from = from, .to = to, .link = l});
  }
  return graph;
}

// How often the least tree from each rank to all others crosses each link, and its cost.
class LeastTrees {
 public:
  LeastTrees(const Graph& graph, const std::vector<double>& prices) : graph_(graph), prices_(prices) {
    const size_t sets = size_t{1} << graph.ranks;
    cost_.assign(sets, std::vector<double>(graph.nodes, kNever));
    choice_.assign(sets, std::vector<Choice>(graph.nodes));
    cost_[0].assign(graph.nodes, 0);
    for (size_t set = 1; set < sets; ++set) {
      for (size_t v = 0; v < graph.nodes; ++v) split(set, v);
      // Along links, as long as that makes anything cheaper.
      for (bool changed = true; changed;) {
        changed = false;
        for (const Graph::Way& way : graph.ways) changed |= move(set, way);
      }
    }
  }

  double cost(size_t root) const { return cost_[others(root)][root]; }
  void count(size_t root, std::map<size_t, int>& uses) const { count(others(root), root, uses); }

 private:
  struct Choice {
    size_t part = 0;                  // of the set, reached apart from the rest; or
    const Graph::Way* way = nullptr;  // the link that all goes over
  };

  size_t others(size_t root) const { return ((size_t{1} << graph_.ranks) - 1) & ~(size_t{1} << root); }

  void offer(size_t set, size_t v, double cost, Choice choice) {
    if (cost >= cost_[set][v]) return;
    cost_[set][v] = cost;
    choice_[set][v] = choice;
  }

  void split(size_t set, size_t v) {
    if (!graph_.branches[v]) return;
    for (size_t part = (set - 1) & set; part > 0; part = (part - 1) & set) {
      offer(set, v, cost_[part][v] + cost_[set & ~part][v], {.part = part});
    }
  }

  bool move(size_t set, const Graph::Way& way) {
    const double before = cost_[set][way.from];
    if (way.to >= graph_.ranks) {
      offer(set, way.from, prices_[way.link] + cost_[set][way.to], {.way = &way});
    } else if ((set >> way.to & 1) != 0) {
      offer(set, way.from, prices_[way.link] + cost_[set & ~(size_t{1} << way.to)][way.to], {.way = &way});
    }
    return cost_[set][way.from] < before - 1e-12;
  }

  void count(size_t set, size_t v, std::map<size_t, int>& uses) const {
    if (set == 0) return;
    const Choice& choice = choice_[set][v];
    if (choice.way == nullptr) {
      CHECK(choice.part != 0);
      count(choice.part, v, uses);
      count(set & ~choice.part, v, uses);
      return;
    }
    ++uses[choice.way->link];
    const size_t to = choice.way->to;
    count(to < graph_.ranks ? set & ~(size_t{1} << to) : set, to, uses);
  }

  const Graph& graph_;
  const std::vector<double>& prices_;
  std::vector<std::vector<double>> cost_;
  std::vector<std::vector<Choice>> choice_;
};

}  // namespace

double best_trees_throughput(const Fabric& fabric, const Collective& collective) {
  const bool both = collective.reduces() && collective.spreads();
  std::vector<Graph> graphs;
  if (collective.spreads()) graphs.push_back(graph_of(fabric, collective, false));
  if (collective.reduces()) graphs.push_back(graph_of(fabric, collective, true));
  const size_t links = fabric.links().size(), ranks = collective.participants().size();
  // Rows: what links bear, then for every direction and rank: trees less what is rooted, 0. Column 0 is the throughput;
  // of an allreduce every rank has one.
  ClpSimplex clp;
  clp.setLogLevel(0);
  clp.resize(0, 0);
  std::vector<double> low(links + graphs.size() * ranks, 0), high(low.size(), 0);
  for (size_t l = 0; l < links; ++l) {
    low[l] = -COIN_DBL_MAX;
    high[l] = static_cast<double>(fabric.links()[l].bandwidth.bytes_per_second()) * 1e-9;
  }
  for (size_t i = 0; i < low.size(); ++i) clp.addRow(0, nullptr, nullptr, low[i], high[i]);
  const auto tree_row = [&](size_t way, size_t rank) { return static_cast<int>(links + way * ranks + rank); };
  std::vector<int> rows;
  std::vector<double> factors;
  const auto add_column = [&](double cost) {
    clp.addColumn(static_cast<int>(rows.size()), rows.data(), factors.data(), 0, COIN_DBL_MAX, cost);
    rows.clear();
    factors.clear();
  };
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t way = 0; way < graphs.size(); ++way) {
      rows.push_back(tree_row(way, r));
      factors.push_back(
          -(both ? 1 : static_cast<double>(collective.weights()[r]) / static_cast<double>(collective.total_weight())));
    }
    if (both) add_column(-1);
  }
  if (!both) add_column(-1);
  for (bool found = true; found;) {
    clp.primal();
    CHECK(clp.isProvenOptimal());
    const double* duals = clp.dualRowSolution();
    std::vector<double> prices(links);
    for (size_t l = 0; l < links; ++l) prices[l] = std::max(0.0, -duals[l]);
    const std::vector<double> of_rows(duals, duals + low.size());
    found = false;
    for (size_t way = 0; way < graphs.size(); ++way) {
      const LeastTrees trees(graphs[way], prices);
      for (size_t r = 0; r < ranks; ++r) {
        // A tree pays when its links cost less than what its row is worth.
        if (trees.cost(r) >= of_rows[static_cast<size_t>(tree_row(way, r))] - 1e-9) continue;
        std::map<size_t, int> uses;
        trees.count(r, uses);
        for (const auto& [link, times] : uses) {
          rows.push_back(static_cast<int>(link));
          factors.push_back(times);
        }
        rows.push_back(tree_row(way, r));
        factors.push_back(1);
        add_column(0);
        found = true;
      }
    }
  }
  return -clp.objectiveValue() * 1e9;
}

}  // namespace banyan::testing
