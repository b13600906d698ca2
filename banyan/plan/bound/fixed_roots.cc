#include "banyan/plan/bound/fixed_roots.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace banyan::plan {
namespace {

// As in overlap_program.cc.
constexpr double kWholeOfRates = 0x1p50;
constexpr double kCutTolerance = 1e-9;

}  // namespace

FixedRootsProgram::FixedRootsProgram(const FixedRoots& question, double throughput, const Rates& wish)
    : question_(&question),
      total_(std::accumulate(question.weights.begin(), question.weights.end(), 0.0)),
      is_second_(throughput > 0),
      program_(is_second_) {
  const auto bandwidths = network().bandwidths();
  unit_ = std::accumulate(bandwidths.begin(), bandwidths.end(), 0.0) / static_cast<double>(bandwidths.size());
  throughput_ = throughput / unit_;
  for (const Network* direction : question.directions) conditions_.emplace_back(*direction);
  add_columns(wish);
  add_links();
  add_switches();
  // The sets around one terminal are the first cuts; others are generated.
  for (uint32_t d = 0; d < question.directions.size(); ++d) {
    for (uint32_t t = 0; t < network().terminal_count(); ++t) {
      VertexSet alone(network().vertex_count(), 0);
      alone[t] = 1;
      add_cut(d, alone);
    }
  }
}

// The rates by direction and arc, then the throughput, then what each rate is short of its wish.
void FixedRootsProgram::add_columns(const Rates& wish) {
  const size_t rates = question_->directions.size() * network().arcs().size();
  for (size_t i = 0; i < rates; ++i) program_.add_column(0);
  throughput_column_ = is_second_ ? program_.add_column(0, throughput_, throughput_) : program_.add_column(-1);
  // The second program counts what each rate is short of its wish.
  std::vector<int> shortages;
  for (size_t i = 0; i < rates; ++i) {
    if (!wish.empty()) shortages.push_back(program_.add_column(1));
  }
  for (size_t d = 0; d < wish.size(); ++d) {
    for (uint32_t a = 0; a < network().arcs().size(); ++a) {
      // The rate and its shortage together reach the wish.
      if (wish[d][a] <= 0) continue;
      const int rate = column(d, a);
      const LinearProgram::Term terms[] = {{.column = rate, .factor = 1},
                                           {.column = shortages[static_cast<size_t>(rate)], .factor = 1}};
      program_.add_row(terms, wish[d][a] / unit_, LinearProgram::kInfinity);
    }
  }
}

void FixedRootsProgram::add_links() {
  for (uint32_t a = 0; a < network().arcs().size(); ++a) {
    std::vector<LinearProgram::Term> terms;
    // All directions share the link.
    for (size_t d = 0; d < question_->directions.size(); ++d) terms.push_back({.column = column(d, a), .factor = 1});
    program_.add_row(terms, -LinearProgram::kInfinity, static_cast<double>(network().bandwidths()[a]) / unit_);
  }
}

void FixedRootsProgram::add_switches() {
  for (uint32_t d = 0; d < question_->directions.size(); ++d) {
    // Trees branch at no switch here: all that enters one leaves it.
    const Network& own = *question_->directions[d];
    for (uint32_t v = own.terminal_count(); v < own.vertex_count(); ++v) {
      std::vector<LinearProgram::Term> terms;
      for (const uint32_t a : own.in_arcs(v)) terms.push_back({.column = column(d, a), .factor = 1});
      for (const uint32_t a : own.out_arcs(v)) terms.push_back({.column = column(d, a), .factor = -1});
      program_.add_switch(terms, d, v);
    }
  }
}

bool FixedRootsProgram::add_cut(uint32_t direction, const VertexSet& outside) {
  // Each cut once: a program with the same row twice is no tighter.
  if (!known_.emplace(direction, outside).second) return false;
  const Network& own = *question_->directions[direction];
  std::vector<LinearProgram::Term> terms;
  for (uint32_t a = 0; a < own.arcs().size(); ++a) {
    const Arc& arc = own.arcs()[a];
    if (!outside[arc.tail] && outside[arc.head]) terms.push_back({.column = column(direction, a), .factor = 1});
  }
  // What is rooted on the near side must cross: the row of the header, by the part of all weights.
  double rooted = 0;
  for (uint32_t t = 0; t < own.terminal_count(); ++t) {
    if (!outside[t]) rooted += static_cast<double>(question_->weights[t]);
  }
  // Nothing is rooted on the near side, so nothing need cross.
  if (rooted == 0) return false;
  terms.push_back({.column = throughput_column_, .factor = -rooted / total_});
  program_.add_cut(terms, direction, outside);
  return true;
}

void FixedRootsProgram::learn_cuts_of(const FixedRootsProgram& other) {
  for (const CutProgram::Row& row : other.program_.rows()) {
    if (!row.outside.empty()) add_cut(row.direction, row.outside);
  }
}

CutProgram::Step FixedRootsProgram::solve(WorkLeft& work) {
  if (!program_.solve(network(), work)) return CutProgram::Step::infeasible;
  throughput_ = program_.value(throughput_column_);
  return add_violated() ? CutProgram::Step::violated : CutProgram::Step::done;
}

bool FixedRootsProgram::add_violated() {
  const uint32_t terminals = network().terminal_count();
  // Rates and weights become integers, as in overlap_program.cc; each direction is checked by itself.
  const double whole = kWholeOfRates / throughput_ / 4 / static_cast<double>(network().arcs().size() + terminals);
  std::vector<int64_t> supply, capacity(network().arcs().size());
  for (const int64_t weight : question_->weights) {
    supply.push_back(std::llround(throughput_ * static_cast<double>(weight) / total_ * whole));
  }
  bool any = false;
  for (uint32_t d = 0; d < conditions_.size(); ++d) {
    for (uint32_t a = 0; a < capacity.size(); ++a) {
      // A cut counts as violated beyond the tolerance only.
      const double rate = program_.value(column(d, a)) + kCutTolerance * throughput_;
      capacity[a] = std::max<int64_t>(0, std::llround(rate * whole));
    }
    conditions_[d].each_violated({.capacity = capacity, .supply = supply}, network().terminals_nearby(),
                                 [&](const VertexSet& outside) { any |= add_cut(d, outside); });
  }
  return any;
}

FixedRootsProgram::Rates FixedRootsProgram::rates() const {
  Rates rates(question_->directions.size());
  for (size_t d = 0; d < rates.size(); ++d) {
    for (uint32_t a = 0; a < network().arcs().size(); ++a) rates[d].push_back(program_.value(column(d, a)) * unit_);
  }
  return rates;
}

}  // namespace banyan::plan
