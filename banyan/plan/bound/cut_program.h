// CutProgram: a linear program of shares, which is solved again and again, and learns cuts in between.
//
// A program owns its columns and rows, its last answer, and for each row that a proof may count which cut or which
// switch it stands for. The programs that use it (overlap_program.h, fixed_roots.h) know what columns mean. Answers are
// floating point. Deterministic; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/plan/bound/bound.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"
#include "banyan/plan/lp/linear_program.h"

namespace banyan::plan {

// The work that is left, counted in numbers that pivots of the simplex look at. Deterministic.
class WorkLeft {
 public:
  struct Exhausted {};
  explicit WorkLeft(uint64_t numbers) : left_(numbers) {}
  // Throws Exhausted.
  void spend(uint64_t numbers);

 private:
  uint64_t left_;
};

class CutProgram {
 public:
  enum class Step : uint8_t { done, violated, infeasible };
  // A cut, or what enters and leaves a switch.
  struct Row {
    int number = 0;          // in the program
    uint32_t direction = 0;  // its place in the question; witness_of() takes any but 0 for gathering
    VertexSet outside = {};  // of a cut
    uint32_t at = 0;         // of a switch
  };

  // `may_be_infeasible`: it is given a throughput, which may be too much.
  explicit CutProgram(bool may_be_infeasible) : may_be_infeasible_(may_be_infeasible) {}

  int add_column(double cost, double low = 0, double high = LinearProgram::kInfinity);
  int add_row(std::span<const LinearProgram::Term> terms, double low, double high);
  // The terms of a cut are at least zero, those of a switch are zero.
  void add_cut(std::span<const LinearProgram::Term> terms, uint32_t direction, const VertexSet& outside);
  void add_switch(std::span<const LinearProgram::Term> terms, uint32_t direction, uint32_t at);
  const std::vector<Row>& rows() const { return rows_; }  // cuts and switches

  // Solves it, and tells the observer of `network` meanwhile. False: it is infeasible. Throws WorkLeft::Exhausted; the
  // answer before, if there was one, then stands.
  bool solve(const Network& network, WorkLeft& work);
  bool has_answer() const { return !solution_.columns.empty(); }
  double value(int column) const { return solution_.columns[static_cast<size_t>(column)]; }

  // The multiplier of each of rows() in the dual.
  std::vector<double> multipliers() const;
  // The witness that counts rows() in these proportions, in the nodes of `network`; without its bound.
  CutsWitness witness_of(const std::vector<int64_t>& multipliers, const Network& network) const;

 private:
  LinearProgram program_;
  LinearProgram::Solution solution_;
  std::vector<Row> rows_;
  uint64_t size_ = 0;  // rows and columns
  bool may_be_infeasible_;
};

}  // namespace banyan::plan
