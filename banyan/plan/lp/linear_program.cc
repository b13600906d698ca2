#include "banyan/plan/lp/linear_program.h"

#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <cmath>
#include <exception>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::plan {
namespace {

constexpr int kPivotsBetweenCalls = 64;

double for_clp(double bound) { return std::isinf(bound) ? std::copysign(COIN_DBL_MAX, bound) : bound; }

// Tells the caller that the work goes on. Nothing may be thrown through CLP, so that an exception is kept.
class Watcher : public ClpEventHandler {
 public:
  Watcher(const std::function<void()>* works_on, std::exception_ptr* thrown) : works_on_(works_on), thrown_(thrown) {}

  int event(Event what) override {
    if (what != endOfIteration || ++pivots_ % kPivotsBetweenCalls != 0) return -1;
    try {
      (*works_on_)();
    } catch (...) {
      *thrown_ = std::current_exception();
      return 5;  // CLP ends, as if it had been stopped by its user
    }
    return -1;
  }
  ClpEventHandler* clone() const override { return new Watcher(*this); }

 private:
  const std::function<void()>* works_on_;
  std::exception_ptr* thrown_;
  int pivots_ = 0;
};

}  // namespace

struct LinearProgram::Model {
  ClpSimplex clp;
  std::vector<double> cost, low, high;  // by column
  // Rows added since the last solve, one after the other.
  std::vector<CoinBigIndex> row_start{0};
  std::vector<int> row_columns;
  std::vector<double> row_factors, row_low, row_high;
  int row_count = 0;
  bool is_loaded = false, has_other_costs = false;

  void load() {
    if (!is_loaded) {
      // CLP takes columns without rows only with arrays that are there, though nothing is in them.
      const std::vector<CoinBigIndex> starts(cost.size() + 1, 0);
      const int no_row = 0;
      const double no_factor = 0;
      clp.loadProblem(static_cast<int>(cost.size()), 0, starts.data(), &no_row, &no_factor, low.data(), high.data(),
                      cost.data(), nullptr, nullptr);
    }
    if (!row_low.empty()) {
      clp.addRows(static_cast<int>(row_low.size()), row_low.data(), row_high.data(), row_start.data(),
                  row_columns.data(), row_factors.data());
    }
    row_start.assign(1, 0);
    for (std::vector<double>* values : {&row_factors, &row_low, &row_high}) values->clear();
    row_columns.clear();
  }

  // Which method starts was measured: flows, whose rows are equations, are solved several times as quickly by the
  // primal one, cuts by the dual one. CLP would choose by itself in initialSolve(), but what that makes on the way is
  // freed twice when memory runs out.
  bool starts_by_primal() const {
    size_t equations = 0;
    for (size_t i = 0; i < row_low.size(); ++i) equations += row_low[i] == row_high[i];
    return 2 * equations > row_low.size();
  }

  // What `works_on` throws is put into `thrown`.
  void solve(const std::function<void()>& works_on, std::exception_ptr* thrown) {
    bool by_primal = std::exchange(has_other_costs, false);
    if (!is_loaded) by_primal = starts_by_primal();
    load();
    is_loaded = true;
    if (works_on) {
      const Watcher watcher(&works_on, thrown);
      clp.passInEventHandler(&watcher);
    }
    if (by_primal) {
      clp.primal();
    } else {
      clp.dual();
    }
    if (works_on) {
      const ClpEventHandler silent;
      clp.passInEventHandler(&silent);
    }
  }
};

namespace {

// CLP frees twice what it was about to replace when memory runs out, even in its destructor. So a model that anything
// was thrown through is lost: its memory is never freed, and it is not used again.
template <typename Model, typename Work>
void run_or_lose(std::unique_ptr<Model>& model, const Work& work) {
  CHECK(model != nullptr) << "a linear program goes on after it has failed";
  try {
    work(*model);
  } catch (...) {
    static_cast<void>(model.release());
    throw;
  }
}

}  // namespace

LinearProgram::LinearProgram() : model_(std::make_unique<Model>()) {
  run_or_lose(model_, [](Model& model) {
    model.clp.setLogLevel(0);
    model.clp.setOptimizationDirection(1);
  });
}
LinearProgram::~LinearProgram() = default;
LinearProgram::LinearProgram(LinearProgram&&) noexcept = default;
LinearProgram& LinearProgram::operator=(LinearProgram&&) noexcept = default;

int LinearProgram::add_column(double cost, double low, double high) {
  CHECK(!model_->is_loaded) << "a column comes after the first solve";
  model_->cost.push_back(cost);
  model_->low.push_back(for_clp(low));
  model_->high.push_back(for_clp(high));
  return static_cast<int>(model_->cost.size()) - 1;
}

int LinearProgram::add_row(std::span<const Term> terms, double low, double high) {
  for (const Term& term : terms) {
    CHECK(term.column >= 0 && term.column < static_cast<int>(model_->cost.size())) << term.column;
    model_->row_columns.push_back(term.column);
    model_->row_factors.push_back(term.factor);
  }
  model_->row_start.push_back(static_cast<CoinBigIndex>(model_->row_columns.size()));
  model_->row_low.push_back(for_clp(low));
  model_->row_high.push_back(for_clp(high));
  return model_->row_count++;
}

void LinearProgram::change_cost(int column, double cost) {
  CHECK(column >= 0 && column < static_cast<int>(model_->cost.size())) << column;
  model_->cost[column] = cost;
  if (!model_->is_loaded) return;
  model_->clp.setObjectiveCoefficient(column, cost);
  model_->has_other_costs = true;
}

LinearProgram::Solution LinearProgram::solve(const std::function<void()>& works_on) {
  std::exception_ptr thrown;
  run_or_lose(model_, [&](Model& model) { model.solve(works_on, &thrown); });
  if (thrown) std::rethrow_exception(thrown);
  const ClpSimplex& clp = model_->clp;
  if (!clp.isProvenOptimal()) {
    const char* why = clp.isProvenPrimalInfeasible() ? "has no solution"
                      : clp.isProvenDualInfeasible() ? "has no least value"
                                                     : "could not be solved, its numbers are too diverse";
    throw Error(ErrorCode::unsupported, "a linear program of " + std::to_string(model_->row_count) + " rows and " +
                                            std::to_string(model_->cost.size()) + " columns " + why);
  }
  const double *columns = clp.primalColumnSolution(), *duals = clp.dualRowSolution();
  return {.value = clp.objectiveValue(),
          .columns = std::vector<double>(columns, columns + model_->cost.size()),
          .duals = std::vector<double>(duals, duals + model_->row_count)};
}

// Convergents p/q of the continued fraction; where the next would have too large a denominator, the best semiconvergent
// or the last convergent, whichever is nearer.
Fraction nearest_fraction(double value, int64_t most) {
  CHECK(std::isfinite(value) && std::abs(value) < 0x1p53 && most >= 1) << value;
  int128 p_before = 0, q_before = 1, p = 1, q = 0;
  double rest = value;
  while (true) {
    const double whole = std::floor(rest);
    // Beyond this a term is nothing but the error of a double; no denominator can be as large.
    if (!(std::abs(whole) < 0x1p62)) break;
    const int128 term = static_cast<int128>(whole);
    if (term * q + q_before > most) {
      const int128 fitting = (most - q_before) / q;
      const Fraction semi(fitting * p + p_before, fitting * q + q_before), last(p, q);
      const double to_semi = std::abs(semi.to_double() - value), to_last = std::abs(last.to_double() - value);
      return to_semi < to_last ? semi : last;
    }
    p_before = std::exchange(p, term * p + p_before);
    q_before = std::exchange(q, term * q + q_before);
    if (static_cast<double>(p) / static_cast<double>(q) == value || rest == whole) break;
    rest = 1 / (rest - whole);
  }
  return Fraction(p, q);
}

}  // namespace banyan::plan
