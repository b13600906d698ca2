// Linear programs, solved by CLP (COIN-OR), which no other code here uses.
//
//   minimise  sum of cost_j x_j   subject to   low_i <= sum of a_ij x_j <= high_i   and   low_j <= x_j <= high_j
//
// All columns come before the first solve. Rows may be added after it; the next one goes on from the last basis by the
// dual simplex, so that cuts can be generated one round after the other. Costs may change after it, too, so that of all
// best answers one is found that is best by another measure; the next solve then goes on by the primal simplex. Answers
// are doubles: what is claimed to be exact is rounded by nearest_fraction() and proven anew in fractions. The same
// calls give the same answer. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"

namespace banyan::plan {

class LinearProgram {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Term {
    int column = 0;
    double factor = 0;
  };
  struct Solution {
    double value = 0;
    std::vector<double> columns;  // x_j
    std::vector<double> duals;    // by row: by how much `value` grows with each unit of the bound that holds x back
  };

  LinearProgram();
  ~LinearProgram();
  LinearProgram(LinearProgram&&) noexcept;
  LinearProgram& operator=(LinearProgram&&) noexcept;

  // Numbers count from 0. A column may stand in a row once only.
  int add_column(double cost, double low = 0, double high = kInfinity);
  int add_row(std::span<const Term> terms, double low, double high);
  void change_cost(int column, double cost);

  // The least value, or Error{unsupported} when there is none: the program is infeasible, unbounded or too badly scaled
  // to be solved. `works_on`, if any, is called every few pivots; what it throws comes out of solve(). If memory runs
  // out in CLP, solve() throws std::bad_alloc, the memory of the program is lost, and nothing more can be asked of it.
  Solution solve(const std::function<void()>& works_on = {});

 private:
  struct Model;
  std::unique_ptr<Model> model_;
};

// The fraction with a denominator of at most `most` that is nearest to `value` (by its continued fraction). `value` is
// finite and below 2^53 in size, `most` at least 1.
Fraction nearest_fraction(double value, int64_t most);

}  // namespace banyan::plan
