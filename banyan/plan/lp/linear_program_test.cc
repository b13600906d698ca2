#include "banyan/plan/lp/linear_program.h"

#include <stdexcept>

#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

using Term = LinearProgram::Term;

TEST(LinearProgram, FindsTheLeastValueAndItsDuals) {
  // minimise -3x - 2y with x + y <= 4, x + 3y <= 8, x <= 3: x = 3, y = 1
  LinearProgram program;
  const int x = program.add_column(-3, 0, 3), y = program.add_column(-2);
  program.add_row(std::vector<Term>{{x, 1}, {y, 1}}, -LinearProgram::kInfinity, 4);
  program.add_row(std::vector<Term>{{x, 1}, {y, 3}}, -LinearProgram::kInfinity, 8);
  const auto solution = program.solve();
  EXPECT_NEAR(solution.value, -11, 1e-9);
  EXPECT_NEAR(solution.columns[0], 3, 1e-9);
  EXPECT_NEAR(solution.columns[1], 1, 1e-9);
  EXPECT_NEAR(solution.duals[0], -2, 1e-9);
  EXPECT_NEAR(solution.duals[1], 0, 1e-9);
}

TEST(LinearProgram, GoesOnAfterRowsAreAdded) {
  LinearProgram program;
  const int x = program.add_column(-1, 0, 10), y = program.add_column(-1, 0, 10);
  EXPECT_NEAR(program.solve().value, -20, 1e-9);
  program.add_row(std::vector<Term>{{x, 1}, {y, 2}}, -LinearProgram::kInfinity, 12);
  EXPECT_NEAR(program.solve().value, -11, 1e-9);
  program.add_row(std::vector<Term>{{x, 1}}, -LinearProgram::kInfinity, 4);
  const auto solution = program.solve();
  EXPECT_NEAR(solution.value, -8, 1e-9);
  EXPECT_EQ(solution.duals.size(), 2u);
}

// Of all points with the greatest x + y, the one of the least x, then the one of the least y.
TEST(LinearProgram, GoesOnWithOtherCosts) {
  LinearProgram program;
  const int x = program.add_column(-1, 0, 5), y = program.add_column(-1, 0, 7);
  program.add_row(std::vector<Term>{{x, 1}, {y, 1}}, -LinearProgram::kInfinity, 10);
  EXPECT_NEAR(program.solve().value, -10, 1e-9);
  program.add_row(std::vector<Term>{{x, 1}, {y, 1}}, 10, LinearProgram::kInfinity);
  program.change_cost(x, 1);
  program.change_cost(y, 0);
  EXPECT_NEAR(program.solve().columns[x], 3, 1e-9);
  program.change_cost(x, 0);
  program.change_cost(y, 1);
  EXPECT_NEAR(program.solve().columns[y], 5, 1e-9);
}

TEST(LinearProgram, SaysWhenThereIsNoLeastValue) {
  LinearProgram infeasible;
  const int x = infeasible.add_column(1, 0, 1);
  infeasible.add_row(std::vector<Term>{{x, 1}}, 2, 3);
  EXPECT_THROW(infeasible.solve(), Error);
  LinearProgram unbounded;
  unbounded.add_column(-1);
  EXPECT_THROW(unbounded.solve(), Error);
}

TEST(LinearProgram, PassesOnWhatItsListenerThrows) {
  // An assignment of 40 to 40, which takes hundreds of pivots.
  const int n = 40;
  std::mt19937 random(1);
  LinearProgram program;
  for (int i = 0; i < n * n; ++i) program.add_column(static_cast<double>(random() % 1000));
  for (int i = 0; i < n; ++i) {
    std::vector<Term> row, column;
    for (int j = 0; j < n; ++j) {
      row.push_back({i * n + j, 1});
      column.push_back({j * n + i, 1});
    }
    program.add_row(row, 1, 1);
    program.add_row(column, 1, 1);
  }
  EXPECT_THROW(program.solve([] { throw std::runtime_error("stopped"); }), std::runtime_error);
  size_t calls = 0;
  const auto solution = program.solve([&] { ++calls; });
  for (const double value : solution.columns) EXPECT_NEAR(value, std::round(value), 1e-9);
}

TEST(NearestFraction, FindsSmallDenominators) {
  EXPECT_EQ(nearest_fraction(0.5, 10), Fraction(1, 2));
  EXPECT_EQ(nearest_fraction(-1.0 / 3, 10), Fraction(-1, 3));
  EXPECT_EQ(nearest_fraction(7, 1), Fraction(7));
  EXPECT_EQ(nearest_fraction(0, 5), Fraction(0));
  EXPECT_EQ(nearest_fraction(3.14159265358979, 113), Fraction(355, 113));
  EXPECT_EQ(nearest_fraction(3.14159265358979, 112), Fraction(333, 106));
  EXPECT_EQ(nearest_fraction(1e-12, 1000), Fraction(0));
}

TEST(NearestFraction, UndoesTheRoundingOfEveryFraction) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10'000; ++i) {
    const int64_t denominator = 1 + static_cast<int64_t>(random() % 1'000'000),
                  numerator = static_cast<int64_t>(random() % 1'000'000) - 500'000;
    const Fraction exact(numerator, denominator);
    EXPECT_EQ(nearest_fraction(exact.to_double() * (1 + 1e-15), 1'000'000), exact) << "seed 7, round " << i;
  }
}

}  // namespace
}  // namespace banyan::plan
