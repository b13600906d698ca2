// Rows of a linear program as triples of row, column and factor, as CoinPackedMatrix takes them. For oracles, which
// share no code with the planners.
#pragma once

#include <vector>

namespace banyan::testing {

struct ProgramRows {
  std::vector<int> row, column;
  std::vector<double> factor, low, high;

  int add(double least, double most) {
    low.push_back(least);
    high.push_back(most);
    return static_cast<int>(low.size()) - 1;
  }
  void put(int in_row, int of_column, double by) {
    row.push_back(in_row);
    column.push_back(of_column);
    factor.push_back(by);
  }
};

}  // namespace banyan::testing
