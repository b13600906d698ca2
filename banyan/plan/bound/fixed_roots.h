// The linear program of trees whose roots are fixed: what each link is to carry of them.
//
// Every rank r roots a part w_r of the whole, and trees may use b_e of link e:
//
//     maximise   x
//     so that    b_e <= bandwidth of e
//                b(leaving S) >= x * w(S)   for every set S without some participant
//                at every switch: what enters is what leaves.
//
// Without the last line x is what the narrowest cut says. With it, x is less where a switch takes in less than it could
// give out, or gives out less than it could take in, and where that binds; x is then the throughput of the best trees,
// since trees exist for any such b (graph/cut_condition.h). In both directions of an allreduce at once, each has its
// own b, and both together keep within the link.
//
// As in overlap_program.h the sets are generated, and there is a second program: for a given throughput it asks for b
// that fall short as little as can be, in all, of what is wished for. Answers are floating point.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "banyan/plan/bound/cut_program.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// Networks of the same arcs, one of each direction, turned round for gathering; and w by terminal. Outlives programs.
struct FixedRoots {
  std::vector<const Network*> directions;
  std::vector<int64_t> weights;
};

class FixedRootsProgram {
 public:
  using Rates = std::vector<std::vector<double>>;  // by direction and arc, in units of the network

  // The greatest throughput.
  explicit FixedRootsProgram(const FixedRoots& question) : FixedRootsProgram(question, 0, {}) {}
  // For this throughput, above 0, in units of the network.
  FixedRootsProgram(const FixedRoots& question, double throughput, const Rates& wish);

  // Solves the program with the cuts that are known and learns those that the answer violates. Throws
  // WorkLeft::Exhausted; the answer before, if there was one, then stands.
  CutProgram::Step solve(WorkLeft& work);
  void learn_cuts_of(const FixedRootsProgram& other);

  double throughput() const { return throughput_ * unit_; }  // of the answer, or asked for
  Rates rates() const;

  // The rows of it are cuts of a direction, and what enters and leaves a switch of it.
  const CutProgram& program() const { return program_; }

 private:
  void add_columns(const Rates& wish);
  void add_links();
  void add_switches();
  bool add_cut(uint32_t direction, const VertexSet& outside);
  bool add_violated();
  int column(size_t direction, uint32_t arc) const {
    return static_cast<int>(direction * network().arcs().size() + arc);
  }
  const Network& network() const { return *question_->directions.front(); }

  const FixedRoots* question_;
  std::vector<CutCondition> conditions_;  // by direction
  double unit_ = 1;                       // of columns, in network units
  double total_ = 0;                      // of weights
  double throughput_ = 0;                 // in units of columns
  bool is_second_;
  int throughput_column_ = 0;
  CutProgram program_;
  std::set<std::pair<uint32_t, VertexSet>> known_;
};

}  // namespace banyan::plan
