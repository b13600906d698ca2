#include "banyan/plan/bound/overlap.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "banyan/base/check.h"
#include "banyan/plan/bound/allreduce_witness.h"
#include "banyan/plan/bound/narrowest_cut.h"
#include "banyan/plan/graph/arc_classes.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/lp/linear_program.h"

namespace banyan::plan {
namespace {

constexpr uint32_t kMostRounds = 200;
// In flows rates are integers of which so many make the whole; a cut counts as violated beyond a part of them that
// rounding cannot explain.
constexpr double kWhole = 0x1p50;
constexpr double kTolerance = 1e-9;
// Numbers that are taken for fractions: the denominator of each and of all, and how near they must be.
constexpr int64_t kMostDenominator = 5'000;
constexpr int64_t kMostCommon = int64_t{1} << 30;
constexpr double kNear = 1e-6;
// Otherwise they are rounded to multiples of this part of the largest.
constexpr double kFineness = 0x1p20;

// Integers in the proportion of `values`, with what one is multiplied to become the other; nothing when the values are
// no fractions with a small common denominator.
struct Integers {
  std::vector<int64_t> values;
  int64_t denominator = 1;
};

std::optional<Integers> as_fractions(const std::vector<double>& values) {
  Integers result;
  for (const double value : values) {
    const double scaled = value * static_cast<double>(result.denominator);
    if (std::abs(scaled) > 0x1p50) return std::nullopt;
    const Fraction near = nearest_fraction(scaled, kMostDenominator);
    if (std::abs(near.to_double() - scaled) > kNear * std::max(1.0, std::abs(scaled) * 1e-3)) return std::nullopt;
    if (near.denominator() * result.denominator > kMostCommon) return std::nullopt;
    result.denominator *= static_cast<int64_t>(near.denominator());
  }
  for (const double value : values) {
    result.values.push_back(std::llround(value * static_cast<double>(result.denominator)));
  }
  return result;
}

class OverlapProgram {
 public:
  OverlapProgram(const Network& spread, const Network& gather, const Fabric& fabric)
      : spread_(spread),
        gather_(gather),
        classes_(spread, fabric),
        mirrored_(classes_.is_symmetric()),
        spread_cuts_(spread),
        gather_cuts_(gather) {
    double total = 0;
    for (const int64_t bandwidth : spread.bandwidths()) total += static_cast<double>(bandwidth);
    unit_ = total / static_cast<double>(spread.bandwidths().size());
    choose_sinks();
    add_columns();
    add_links();
    add_switches();
    for (const uint32_t t : sinks_) {
      VertexSet alone(spread.vertex_count(), 0);
      alone[t] = 1;
      add_cut(alone, false);
      if (!mirrored_) add_cut(alone, true);
    }
  }

  // Solves and adds cuts until none is violated; false when there still are some after kMostRounds programs.
  bool solve() {
    const auto works_on = [this] { spread_.tell_observer(); };
    while (rounds_ < kMostRounds) {
      ++rounds_;
      solution_ = program_.solve(works_on);
      if (!add_violated()) return true;
    }
    return false;
  }

  // From now on all ranks root the same.
  void make_roots_equal() {
    for (uint32_t c = 1; c < root_columns_.size(); ++c) {
      if (root_columns_[c] < 0) continue;
      const LinearProgram::Term terms[] = {{.column = root_columns_[first_root_], .factor = 1},
                                           {.column = root_columns_[c], .factor = -1}};
      if (c != first_root_) add_row(terms, 0, 0);
    }
  }

  double throughput() const { return -solution_.value; }
  uint32_t rounds() const { return rounds_; }

  // What the dual proves.
  AllreduceWitness witness(const Fabric&) const {
    std::vector<double> factors;
    for (const Row& row : rows_) factors.push_back(solution_.duals[static_cast<size_t>(row.number)]);
    AllreduceWitness best;
    if (const auto exact = as_fractions(factors)) best = witness_of(exact->values);
    AllreduceWitness rounded = witness_of(rounded_to_parts(factors));
    return !best.cuts.empty() && best.bound >= rounded.bound ? best : rounded;
  }

  std::optional<OverlapShares> shares() const {
    std::vector<double> values;
    for (const double column : solution_.columns) values.push_back(column * unit_);
    if (const auto exact = as_fractions(values)) {
      OverlapShares result = shares_of(*exact);
      if (is_feasible(result)) return result;
    }
    return std::nullopt;
  }

 private:
  // A row that a dual multiplies: a cut, or what enters and leaves a switch.
  struct Row {
    int number = 0;
    bool gathering = false;
    VertexSet inside = {};  // of a cut
    uint32_t at = 0;        // of a switch
  };

  // One terminal of each class.
  void choose_sinks() {
    std::vector<uint8_t> seen(classes_.vertex_classes(), 0);
    for (const uint32_t t : spread_.terminals_nearby()) {
      uint8_t& is_seen = seen[classes_.of_vertex(t)];
      if (!is_seen) sinks_.push_back(t);
      is_seen = 1;
    }
  }

  void add_columns() {
    for (uint32_t c = 0; c < classes_.arc_classes(); ++c) spread_columns_.push_back(program_.add_column(0));
    for (uint32_t c = 0; c < classes_.arc_classes(); ++c) {
      gather_columns_.push_back(mirrored_ ? spread_columns_[classes_.opposite(c)] : program_.add_column(0));
    }
    root_columns_.assign(classes_.vertex_classes(), -1);
    for (const uint32_t t : sinks_) {
      const uint32_t c = classes_.of_vertex(t);
      root_columns_[c] = program_.add_column(-static_cast<double>(classes_.vertex_size(c)));
    }
    first_root_ = classes_.of_vertex(sinks_.front());
  }

  // Adds up the terms of one column: a column may stand in a row once only.
  int add_row(std::span<const LinearProgram::Term> terms, double low, double high) {
    std::map<int, double> sums;
    for (const auto& [column, factor] : terms) sums[column] += factor;
    std::vector<LinearProgram::Term> row;
    for (const auto& [column, factor] : sums) {
      if (factor != 0) row.push_back({.column = column, .factor = factor});
    }
    return program_.add_row(row, low, high);
  }

  void add_links() {
    std::vector<double> capacity(classes_.arc_classes(), 0);
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      capacity[classes_.of_arc(a)] = static_cast<double>(spread_.bandwidths()[a]) / unit_;
    }
    for (uint32_t c = 0; c < classes_.arc_classes(); ++c) {
      if (mirrored_ && classes_.opposite(c) < c) continue;
      const LinearProgram::Term terms[] = {{.column = spread_columns_[c], .factor = 1},
                                           {.column = gather_columns_[c], .factor = 1}};
      add_row(terms, -LinearProgram::kInfinity, capacity[c]);
    }
  }

  void add_switches() {
    std::vector<uint8_t> seen(classes_.vertex_classes(), 0);
    for (uint32_t v = spread_.terminal_count(); v < spread_.vertex_count(); ++v) {
      uint8_t& is_seen = seen[classes_.of_vertex(v)];
      if (is_seen) continue;
      is_seen = 1;
      for (const bool gathering : {false, true}) {
        if (gathering && mirrored_) continue;
        const std::vector<int>& columns = gathering ? gather_columns_ : spread_columns_;
        std::vector<LinearProgram::Term> terms;
        for (const uint32_t a : spread_.in_arcs(v)) terms.push_back({columns[classes_.of_arc(a)], 1});
        for (const uint32_t a : spread_.out_arcs(v)) terms.push_back({columns[classes_.of_arc(a)], -1});
        rows_.push_back({.number = add_row(terms, 0, 0), .gathering = gathering, .at = v});
      }
    }
  }

  // What spreads must enter `outside` from, and what is gathered must leave it to, the rest. Whether that is new.
  bool add_cut(const VertexSet& outside, bool gathering) {
    const std::vector<int>& columns = gathering ? gather_columns_ : spread_columns_;
    std::vector<LinearProgram::Term> terms;
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      const auto& [tail, head, link] = spread_.arcs()[a];
      const uint32_t near = gathering ? head : tail, far = gathering ? tail : head;
      if (!outside[near] && outside[far]) terms.push_back({columns[classes_.of_arc(a)], 1});
    }
    VertexSet inside = outside;
    for (uint8_t& mark : inside) mark = !mark;
    for (uint32_t t = 0; t < spread_.terminal_count(); ++t) {
      if (inside[t]) terms.push_back({root_columns_[classes_.of_vertex(t)], -1});
    }
    std::vector<std::pair<int, double>> key;
    std::map<int, double> sums;
    for (const auto& [column, factor] : terms) sums[column] += factor;
    if (!known_.insert({{sums.begin(), sums.end()}, 0}).second) return false;
    rows_.push_back(
        {.number = add_row(terms, 0, LinearProgram::kInfinity), .gathering = gathering, .inside = std::move(inside)});
    return true;
  }

  bool add_violated() {
    const double whole = kWhole / std::max(throughput(), 1e-9) / 4 /
                         static_cast<double>(spread_.arcs().size() + spread_.terminal_count());
    std::vector<int64_t> supply, capacity(spread_.arcs().size());
    for (uint32_t t = 0; t < spread_.terminal_count(); ++t) {
      const double rate = solution_.columns[static_cast<size_t>(root_columns_[classes_.of_vertex(t)])];
      supply.push_back(std::max<int64_t>(0, std::llround(rate * whole)));
    }
    bool any = false;
    for (const bool gathering : {false, true}) {
      if (gathering && mirrored_) continue;
      const std::vector<int>& columns = gathering ? gather_columns_ : spread_columns_;
      const double slack = kTolerance * throughput();
      for (uint32_t a = 0; a < capacity.size(); ++a) {
        const double rate = solution_.columns[static_cast<size_t>(columns[classes_.of_arc(a)])];
        capacity[a] = std::max<int64_t>(0, std::llround((rate + slack) * whole));
      }
      (gathering ? gather_cuts_ : spread_cuts_)
          .each_violated({.capacity = capacity, .supply = supply}, sinks_,
                         [&](const VertexSet& outside) { any |= add_cut(outside, gathering); });
    }
    return any;
  }

  std::vector<int64_t> rounded_to_parts(const std::vector<double>& factors) const {
    double most = 0;
    for (const double factor : factors) most = std::max(most, std::abs(factor));
    std::vector<int64_t> result;
    for (const double factor : factors) result.push_back(std::llround(factor / most * kFineness));
    return result;
  }

  AllreduceWitness witness_of(const std::vector<int64_t>& factors) const {
    AllreduceWitness witness{.cuts = {}, .potentials = {}, .over_images = true, .bound = Fraction(0)};
    int64_t common = 0;
    for (const int64_t factor : factors) common = std::gcd(common, factor);
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      if (factors[i] == 0) continue;
      const int64_t times = factors[i] / common;
      if (row.inside.empty()) {
        witness.potentials.push_back({.gathering = row.gathering, .at = spread_.node_of(row.at), .height = times});
      } else if (times > 0) {
        AllreduceWitness::Cut cut{.gathering = row.gathering, .inside = {}, .times = times};
        for (uint32_t v = 0; v < row.inside.size(); ++v) {
          if (row.inside[v]) cut.inside.push_back(spread_.node_of(v));
        }
        std::sort(cut.inside.begin(), cut.inside.end());
        witness.cuts.push_back(std::move(cut));
      }
    }
    if (const auto proven = count_crossings(witness, spread_, classes_)) witness.bound = proven->seconds_per_byte();
    return witness;
  }

  OverlapShares shares_of(const Integers& columns) const {
    OverlapShares result{.parts = columns.denominator, .gather = {}, .spread = {}, .supply = {}};
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      const uint32_t c = classes_.of_arc(a);
      result.spread.push_back(columns.values[static_cast<size_t>(spread_columns_[c])]);
      result.gather.push_back(columns.values[static_cast<size_t>(gather_columns_[c])]);
    }
    for (uint32_t t = 0; t < spread_.terminal_count(); ++t) {
      result.supply.push_back(columns.values[static_cast<size_t>(root_columns_[classes_.of_vertex(t)])]);
    }
    return result;
  }

  bool is_feasible(const OverlapShares& shares) const {
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      if (shares.gather[a] < 0 || shares.spread[a] < 0 ||
          int128{shares.gather[a]} + shares.spread[a] > int128{shares.parts} * spread_.bandwidths()[a]) {
        return false;
      }
    }
    for (const int64_t supply : shares.supply) {
      if (supply < 0) return false;
    }
    for (uint32_t v = spread_.terminal_count(); v < spread_.vertex_count(); ++v) {
      for (const std::vector<int64_t>* of : {&shares.gather, &shares.spread}) {
        int128 excess = 0;
        for (const uint32_t a : spread_.in_arcs(v)) excess += (*of)[a];
        for (const uint32_t a : spread_.out_arcs(v)) excess -= (*of)[a];
        if (excess != 0) return false;
      }
    }
    return !CutCondition(spread_).find_violated({.capacity = shares.spread, .supply = shares.supply}) &&
           !CutCondition(gather_).find_violated({.capacity = shares.gather, .supply = shares.supply});
  }

  const Network &spread_, &gather_;
  const ArcClasses classes_;
  const bool mirrored_;
  CutCondition spread_cuts_, gather_cuts_;
  double unit_ = 1;  // of columns, in network units
  std::vector<uint32_t> sinks_;
  std::vector<int> spread_columns_, gather_columns_, root_columns_;
  uint32_t first_root_ = 0;
  LinearProgram program_;
  LinearProgram::Solution solution_;
  std::vector<Row> rows_;
  std::map<std::vector<std::pair<int, double>>, int> known_;
  uint32_t rounds_ = 0;
};

}  // namespace

Fraction OverlapShares::seconds_per_byte(const Network& network) const {
  const int64_t total = std::accumulate(supply.begin(), supply.end(), int64_t{0});
  return Fraction(parts, int128{total} * static_cast<int128>(network.unit()));
}

Overlap solve_overlap(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  const Network spread(fabric, collective, false, observer), gather(fabric, collective, true, observer);
  check_connected(spread, fabric, collective);
  OverlapProgram program(spread, gather, fabric);
  const bool complete = program.solve();
  Overlap result{.witness = program.witness(fabric), .shares = {}, .rounds = program.rounds()};
  if (!complete) return result;
  result.shares = program.shares();
  const double best = program.throughput();
  program.make_roots_equal();
  if (program.solve() && program.throughput() > best * (1 - 1e-9)) {
    if (auto equal = program.shares()) result.shares = std::move(equal);
  }
  result.rounds = program.rounds();
  return result;
}

}  // namespace banyan::plan
