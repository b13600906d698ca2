#include "banyan/plan/bound/cut_program.h"

#include <algorithm>
#include <numeric>

#include "banyan/base/error.h"

namespace banyan::plan {
namespace {

constexpr uint64_t kPivotsBetweenCalls = 64;  // of linear_program.cc

}  // namespace

void WorkLeft::spend(uint64_t numbers) {
  if (numbers > left_) throw Exhausted();
  left_ -= numbers;
}

int CutProgram::add_column(double cost, double low, double high) {
  ++size_;
  return program_.add_column(cost, low, high);
}

int CutProgram::add_row(std::span<const LinearProgram::Term> terms, double low, double high) {
  ++size_;
  return program_.add_row(terms, low, high);
}

void CutProgram::add_cut(std::span<const LinearProgram::Term> terms, uint32_t direction, const VertexSet& outside) {
  rows_.push_back({.number = add_row(terms, 0, LinearProgram::kInfinity), .direction = direction, .outside = outside});
}

void CutProgram::add_switch(std::span<const LinearProgram::Term> terms, uint32_t direction, uint32_t at) {
  rows_.push_back({.number = add_row(terms, 0, 0), .direction = direction, .at = at});
}

bool CutProgram::solve(const Network& network, WorkLeft& work) {
  // The solver calls after so many pivots, each of which looks at about as many numbers as there are rows and columns.
  const auto works_on = [&] {
    network.tell_observer();
    work.spend(kPivotsBetweenCalls * size_);
  };
  try {
    solution_ = program_.solve(works_on);
    return true;
  } catch (const Error& error) {
    if (!may_be_infeasible_ || error.code() != ErrorCode::unsupported) throw;
    return false;
  }
}

std::vector<double> CutProgram::multipliers() const {
  std::vector<double> result;
  for (const Row& row : rows_) {
    // Cuts that were learnt after the last answer have none.
    const size_t number = static_cast<size_t>(row.number);
    result.push_back(number < solution_.duals.size() ? solution_.duals[number] : 0);
  }
  return result;
}

CutsWitness CutProgram::witness_of(const std::vector<int64_t>& multipliers, const Network& network) const {
  CutsWitness witness{.cuts = {}, .potentials = {}, .over_images = false, .bound = Fraction(0)};
  // Multiplicities in lowest terms: only their proportions count.
  int64_t common = 0;
  for (const int64_t multiplier : multipliers) common = std::gcd(common, multiplier);
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (multipliers[i] == 0) continue;
    const bool gathering = row.direction != 0;
    const int64_t times = multipliers[i] / common;
    if (row.outside.empty()) {
      witness.potentials.push_back({.gathering = gathering, .at = network.node_of(row.at), .height = times});
    } else if (times > 0) {
      CutsWitness::Cut cut{.gathering = gathering, .inside = {}, .times = times};
      for (uint32_t v = 0; v < row.outside.size(); ++v) {
        if (!row.outside[v]) cut.inside.push_back(network.node_of(v));
      }
      std::sort(cut.inside.begin(), cut.inside.end());
      witness.cuts.push_back(std::move(cut));
    }
  }
  return witness;
}

}  // namespace banyan::plan
