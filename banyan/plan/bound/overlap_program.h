// The linear programs of overlap.h, with the cuts that they have learnt.
//
// Columns are the shares of links, by class of arcs, and what a rank roots, by class of ranks, in units of the mean
// bandwidth. The first program asks for the greatest throughput. The second one, near_halves, is given a throughput and
// asks for shares as near as can be to half of each link, and for roots as equal as can be: such an answer leaves trees
// room to be low, and it violates few cuts where an answer of the first, which is any vertex of many, violates new ones
// for long after its throughput has ceased to fall.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/bound/cut_program.h"
#include "banyan/plan/bound/overlap.h"
#include "banyan/plan/graph/arc_classes.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// The question that both programs answer. Outlives them.
struct OverlapQuestion {
  // The question of the bound: out-trees (in-trees) branch as they like at switches that multicast (reduce).
  OverlapQuestion(const Fabric& on, const Collective& collective, PlanObserver* observer);
  // The question of the shares, for trees that exist: they span the switches named, too, and branch at no others.
  OverlapQuestion(const Fabric& on, const Collective& collective, PlanObserver* observer,
                  const SwitchTerminals& terminals);

  const Network& network(bool gathering) const { return gathering ? gather : spread; }

  Fabric fabric;
  // The same arcs, those of `gather` turned round. Vertices are numbered alike where both have the same terminals.
  Network spread, gather;
  std::vector<uint32_t> spread_vertex_of;  // by vertex of `gather`
  ArcClasses classes;
  bool is_mirrored;  // gathering is spreading turned round
  // Indexed by vertex of `spread`: 1 if trees span it, and 1 if what enters it must leave it.
  std::vector<uint8_t> spread_spanned, gather_spanned;
  std::vector<uint8_t> spread_balanced, gather_balanced;
};

// The switches of a fabric at which out-trees, or in-trees, can branch.
SwitchTerminals switches_with_power(const Fabric& fabric);

// An answer in floating point, in units of the network.
struct OverlapRates {
  std::vector<double> spread, gather;  // by arc
  std::vector<double> roots;           // by terminal
};

class OverlapProgram {
 public:
  // The greatest throughput.
  explicit OverlapProgram(const OverlapQuestion& question);
  // The second program, for the throughput that `asked` has found, with its cuts.
  static OverlapProgram near_halves(const OverlapProgram& asked);

  // Solves the program with the cuts that are known and learns those that the answer violates. Throws
  // WorkLeft::Exhausted; the answer before, if there was one, then stands.
  CutProgram::Step solve(WorkLeft& work);
  // Those that hold for this program, too.
  void learn_cuts_of(const OverlapProgram& other);

  bool has_answer() const { return program_.has_answer(); }
  double throughput() const { return throughput_; }  // in units of columns
  OverlapRates rates() const;

  // The multiplier in the dual of each row that a proof may count.
  std::vector<double> multipliers() const { return program_.multipliers(); }
  // The witness that counts them in these proportions; its bound is zero when it proves nothing.
  CutsWitness witness_of(const std::vector<int64_t>& multipliers) const;

 private:
  // `throughput`: zero for the first program.
  OverlapProgram(const OverlapQuestion& question, double throughput);
  std::vector<uint32_t> choose_roots() const;
  std::vector<uint32_t> choose_sinks(bool gathering) const;
  void add_columns();
  void add_distances();
  void add_links();
  void add_switches();
  void add_distance(int column, int distance, double unit, double target);
  bool add_cut(const VertexSet& outside, bool gathering);
  VertexSet as_spread(const VertexSet& outside, bool gathering) const;
  bool add_violated();
  int root_column(uint32_t terminal) const { return root_columns_[classes().of_vertex(terminal)]; }
  const ArcClasses& classes() const { return question_->classes; }
  const std::vector<int>& columns(bool gathering) const { return gathering ? gather_columns_ : spread_columns_; }

  const OverlapQuestion* question_;
  CutCondition spread_cuts_, gather_cuts_;
  double unit_ = 1;        // of columns, in network units
  double throughput_ = 0;  // of the answer, or asked for
  bool is_second_;
  std::vector<uint32_t> roots_;                        // one participant of each class
  std::vector<uint32_t> spread_sinks_, gather_sinks_;  // one terminal of each class, in the numbers of either network
  std::vector<double> capacity_;                       // by class of arcs
  std::vector<int> spread_columns_, gather_columns_, root_columns_;
  std::vector<int> spread_distances_, gather_distances_, root_distances_;  // of the second program
  CutProgram program_;                                      // its rows are in the vertices of question_->spread
  std::set<std::pair<bool, std::map<int, double>>> known_;  // cuts, by what they say
};

}  // namespace banyan::plan
