#include "banyan/plan/bound/overlap.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "banyan/base/error.h"
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
      : OverlapProgram(spread, gather, fabric, nullptr) {
    for (const uint32_t t : sinks_) {
      VertexSet alone(spread.vertex_count(), 0);
      alone[t] = 1;
      add_cut(alone, false);
      if (!mirrored_) add_cut(alone, true);
    }
  }

  // The second question: with given roots, by terminal, the shares that are as near as can be to halves of the links.
  // The cuts of `solved` are known already.
  static OverlapProgram near_halves(const OverlapProgram& solved, const std::vector<double>& roots,
                                    const Fabric& fabric) {
    OverlapProgram result(solved.spread_, solved.gather_, fabric, &roots);
    for (const Row& row : solved.rows_) {
      if (!row.outside.empty()) result.add_cut(row.outside, row.gathering);
    }
    return result;
  }

  // Solves and adds cuts until none is violated; false when there still are some after kMostRounds programs.
  bool solve() {
    const auto works_on = [this] { spread_.tell_observer(); };
    while (rounds_ < kMostRounds) {
      ++rounds_;
      solution_ = program_.solve(works_on);
      throughput_ = 0;
      for (const uint32_t t : sinks_) {
        const uint32_t c = classes_.of_vertex(t);
        throughput_ += root_rate(t) * static_cast<double>(classes_.vertex_size(c));
      }
      if (!add_violated()) return true;
    }
    return false;
  }

  // The same where there need not be a solution.
  bool try_to_solve() {
    try {
      return solve();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      return false;
    }
  }

  // By terminal, what it roots in the solution; the same when all root alike.
  std::vector<double> roots() const {
    std::vector<double> rates;
    for (uint32_t t = 0; t < spread_.terminal_count(); ++t) rates.push_back(root_rate(t));
    return rates;
  }
  std::vector<double> equal_roots() const {
    return std::vector<double>(spread_.terminal_count(), throughput_ / spread_.terminal_count());
  }

  double throughput() const { return throughput_; }
  uint32_t rounds() const { return rounds_; }

  // What the dual proves.
  AllreduceWitness witness() const {
    std::vector<double> factors;
    for (const Row& row : rows_) factors.push_back(solution_.duals[static_cast<size_t>(row.number)]);
    AllreduceWitness best;
    if (const auto exact = as_fractions(factors)) best = witness_of(exact->values);
    AllreduceWitness rounded = witness_of(rounded_to_parts(factors));
    return !best.cuts.empty() && best.bound >= rounded.bound ? best : rounded;
  }

  // Rounded to fractions: exact, or nothing when these are too fine.
  std::optional<OverlapShares> exact_shares() const {
    std::vector<double> values(solution_.columns.begin(), solution_.columns.begin() + first_other_column_);
    for (double& value : values) value *= unit_;
    const auto integers = as_fractions(values);
    if (!integers) return std::nullopt;
    OverlapShares result{.parts = Fraction(integers->denominator), .gather = {}, .spread = {}, .supply = {}};
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      const uint32_t c = classes_.of_arc(a);
      result.spread.push_back(integers->values[static_cast<size_t>(spread_columns_[c])]);
      result.gather.push_back(integers->values[static_cast<size_t>(gather_columns_[c])]);
    }
    for (uint32_t t = 0; t < spread_.terminal_count(); ++t) {
      result.supply.push_back(integers->values[static_cast<size_t>(root_column(t))]);
    }
    if (!fits(result) || !is_feasible(result)) return std::nullopt;
    return result;
  }

  // Rounded down to whole parts of the throughput, as few as suffice.
  std::optional<OverlapShares> rounded_shares() const {
    for (const int bits : {20, 26, 32, 38}) {
      for (const int loss : {18, 16, 14}) {
        OverlapShares result = rounded_shares(std::ldexp(1.0, bits), 1 - std::ldexp(1.0, -loss));
        if (is_feasible(result)) return result;
      }
    }
    return std::nullopt;
  }

 private:
  // A row that a dual multiplies: a cut, or what enters and leaves a switch.
  struct Row {
    int number = 0;
    bool gathering = false;
    VertexSet outside = {};  // of a cut
    uint32_t at = 0;         // of a switch
  };

  // `roots`: by terminal what it roots, for the second question.
  OverlapProgram(const Network& spread, const Network& gather, const Fabric& fabric, const std::vector<double>* roots)
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
    add_columns(roots);
    if (roots) add_distances();
    add_links();
    if (roots) measure_distances();
    add_switches();
  }

  // One terminal of each class.
  void choose_sinks() {
    std::vector<uint8_t> seen(classes_.vertex_classes(), 0);
    for (const uint32_t t : spread_.terminals_nearby()) {
      uint8_t& is_seen = seen[classes_.of_vertex(t)];
      if (!is_seen) sinks_.push_back(t);
      is_seen = 1;
    }
  }

  void add_columns(const std::vector<double>* roots) {
    for (uint32_t c = 0; c < classes_.arc_classes(); ++c) spread_columns_.push_back(program_.add_column(0));
    for (uint32_t c = 0; c < classes_.arc_classes(); ++c) {
      gather_columns_.push_back(mirrored_ ? spread_columns_[classes_.opposite(c)] : program_.add_column(0));
    }
    root_columns_.assign(classes_.vertex_classes(), -1);
    for (const uint32_t t : sinks_) {
      const uint32_t c = classes_.of_vertex(t);
      const double rate = roots ? (*roots)[t] : 0;
      root_columns_[c] = roots ? program_.add_column(0, rate, rate)
                               : program_.add_column(-static_cast<double>(classes_.vertex_size(c)));
    }
    first_other_column_ = root_columns_[classes_.of_vertex(sinks_.back())] + 1;
  }

  // How far each share is from half of its link, in parts of the link.
  void add_distances() {
    for (uint32_t c = 0; c < classes_.arc_classes(); ++c) {
      const double cost = static_cast<double>(classes_.arc_size(c));
      spread_distances_.push_back(program_.add_column(cost));
      if (!mirrored_) gather_distances_.push_back(program_.add_column(cost));
    }
  }
  void measure_distances() {
    for (uint32_t c = 0; c < classes_.arc_classes(); ++c) {
      measure_distance(spread_columns_[c], spread_distances_[c], capacity_[c]);
      if (!mirrored_) measure_distance(gather_columns_[c], gather_distances_[c], capacity_[c]);
    }
  }
  void measure_distance(int share, int distance, double capacity) {
    for (const double sign : {1.0, -1.0}) {
      const LinearProgram::Term terms[] = {{.column = share, .factor = sign},
                                           {.column = distance, .factor = -capacity}};
      add_row(terms, -LinearProgram::kInfinity, sign * capacity / 2);
    }
  }

  int root_column(uint32_t terminal) const { return root_columns_[classes_.of_vertex(terminal)]; }
  double root_rate(uint32_t terminal) const { return solution_.columns[static_cast<size_t>(root_column(terminal))]; }

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
    capacity_.assign(classes_.arc_classes(), 0);
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      capacity_[classes_.of_arc(a)] = static_cast<double>(spread_.bandwidths()[a]) / unit_;
    }
    for (uint32_t c = 0; c < classes_.arc_classes(); ++c) {
      if (mirrored_ && classes_.opposite(c) < c) continue;
      const LinearProgram::Term terms[] = {{.column = spread_columns_[c], .factor = 1},
                                           {.column = gather_columns_[c], .factor = 1}};
      add_row(terms, -LinearProgram::kInfinity, capacity_[c]);
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
    for (uint32_t t = 0; t < spread_.terminal_count(); ++t) {
      if (!outside[t]) terms.push_back({root_column(t), -1});
    }
    std::map<int, double> sums;
    for (const auto& [column, factor] : terms) sums[column] += factor;
    if (!known_.emplace(gathering, std::move(sums)).second) return false;
    rows_.push_back(
        {.number = add_row(terms, 0, LinearProgram::kInfinity), .gathering = gathering, .outside = outside});
    return true;
  }

  bool add_violated() {
    const double whole = kWhole / std::max(throughput(), 1e-9) / 4 /
                         static_cast<double>(spread_.arcs().size() + spread_.terminal_count());
    std::vector<int64_t> supply, capacity(spread_.arcs().size());
    for (uint32_t t = 0; t < spread_.terminal_count(); ++t) {
      supply.push_back(std::max<int64_t>(0, std::llround(root_rate(t) * whole)));
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
      if (row.outside.empty()) {
        witness.potentials.push_back({.gathering = row.gathering, .at = spread_.node_of(row.at), .height = times});
      } else if (times > 0) {
        AllreduceWitness::Cut cut{.gathering = row.gathering, .inside = {}, .times = times};
        for (uint32_t v = 0; v < row.outside.size(); ++v) {
          if (!row.outside[v]) cut.inside.push_back(spread_.node_of(v));
        }
        std::sort(cut.inside.begin(), cut.inside.end());
        witness.cuts.push_back(std::move(cut));
      }
    }
    if (const auto proven = count_crossings(witness, spread_, classes_)) witness.bound = proven->seconds_per_byte();
    return witness;
  }

  OverlapShares rounded_shares(double total, double kept) const {
    // A power of two, so that it is exact.
    const int scale = std::ilogb(total / (throughput_ * unit_));
    const double parts = std::ldexp(1.0, scale);
    OverlapShares result{.parts = scale < 0 ? Fraction(1, int128{1} << -scale) : Fraction(int128{1} << scale, 1),
                         .gather = {},
                         .spread = {},
                         .supply = {}};
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      const uint32_t c = classes_.of_arc(a);
      const auto share = [&](const std::vector<int>& columns) {
        const double value = solution_.columns[static_cast<size_t>(columns[c])] * unit_ * parts;
        return std::max<int64_t>(0, static_cast<int64_t>(value + 1e-6));
      };
      result.spread.push_back(share(spread_columns_));
      result.gather.push_back(share(gather_columns_));
    }
    for (uint32_t t = 0; t < spread_.terminal_count(); ++t) {
      result.supply.push_back(std::max<int64_t>(0, static_cast<int64_t>(root_rate(t) * unit_ * parts * kept)));
    }
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      if (mirrored_ && classes_.opposite_arc(a) < a) continue;
      int64_t& back = result.gather[a];
      const int128 room = whole_parts(result.parts, a);
      const int64_t excess = static_cast<int64_t>(std::max<int128>(0, int128{result.spread[a]} + back - room));
      back -= std::min(excess, back);
      if (mirrored_) result.spread[classes_.opposite_arc(a)] = back;
    }
    balance(result.spread);
    if (!mirrored_) {
      balance(result.gather);
      return result;
    }
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) result.gather[a] = result.spread[classes_.opposite_arc(a)];
    return result;
  }

  int128 whole_parts(const Fraction& parts, uint32_t arc) const {
    const Fraction room = parts * Fraction(spread_.bandwidths()[arc]);
    return room.numerator() / room.denominator();
  }

  // Takes away from what enters or leaves a switch in excess, from arcs of terminals first. It ends since it only takes.
  void balance(std::vector<int64_t>& shares) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t v = spread_.terminal_count(); v < spread_.vertex_count(); ++v) {
        int64_t excess = 0;
        for (const uint32_t a : spread_.in_arcs(v)) excess += shares[a];
        for (const uint32_t a : spread_.out_arcs(v)) excess -= shares[a];
        changed |= excess != 0;
        const auto arcs = excess > 0 ? spread_.in_arcs(v) : spread_.out_arcs(v);
        excess = std::abs(excess);
        for (const bool of_terminals : {true, false}) {
          for (const uint32_t a : arcs) {
            const uint32_t other = spread_.arcs()[a].tail == v ? spread_.arcs()[a].head : spread_.arcs()[a].tail;
            if (spread_.is_terminal(other) != of_terminals) continue;
            const int64_t taken = std::min(excess, shares[a]);
            shares[a] -= taken;
            excess -= taken;
          }
        }
      }
    }
  }

  // Whether shares keep within the links and are balanced.
  bool fits(const OverlapShares& shares) const {
    for (uint32_t a = 0; a < spread_.arcs().size(); ++a) {
      if (shares.gather[a] < 0 || shares.spread[a] < 0) return false;
      if (int128{shares.gather[a]} + shares.spread[a] > whole_parts(shares.parts, a)) return false;
    }
    for (uint32_t v = spread_.terminal_count(); v < spread_.vertex_count(); ++v) {
      for (const std::vector<int64_t>* of : {&shares.gather, &shares.spread}) {
        int128 excess = 0;
        for (const uint32_t a : spread_.in_arcs(v)) excess += (*of)[a];
        for (const uint32_t a : spread_.out_arcs(v)) excess -= (*of)[a];
        if (excess != 0) return false;
      }
    }
    return std::ranges::all_of(shares.supply, [](int64_t supply) { return supply >= 0; });
  }

  bool is_feasible(const OverlapShares& shares) const {
    return !CutCondition(spread_).find_violated({.capacity = shares.spread, .supply = shares.supply}) &&
           (mirrored_ || !CutCondition(gather_).find_violated({.capacity = shares.gather, .supply = shares.supply}));
  }

  const Network &spread_, &gather_;
  const ArcClasses classes_;
  const bool mirrored_;
  CutCondition spread_cuts_, gather_cuts_;
  double unit_ = 1;  // of columns, in network units
  std::vector<uint32_t> sinks_;
  std::vector<int> spread_columns_, gather_columns_, root_columns_;
  std::vector<int> spread_distances_, gather_distances_;  // where these are asked for
  int first_other_column_ = 0;                            // behind those of shares and roots
  std::vector<double> capacity_;                          // by class of arcs, in units of columns
  double throughput_ = 0;
  LinearProgram program_;
  LinearProgram::Solution solution_;
  std::vector<Row> rows_;
  std::set<std::pair<bool, std::map<int, double>>> known_;  // cuts, by what they say
  uint32_t rounds_ = 0;
};

}  // namespace

Fraction OverlapShares::seconds_per_byte(const Network& network) const {
  const int64_t total = std::accumulate(supply.begin(), supply.end(), int64_t{0});
  return parts / Fraction(int128{total} * static_cast<int128>(network.unit()), 1);
}

Overlap solve_overlap(const Fabric& fabric, const Collective& collective, OverlapWanted wanted,
                      PlanObserver* observer) {
  const Network spread(fabric, collective, false, observer), gather(fabric, collective, true, observer);
  check_connected(spread, fabric, collective);
  OverlapProgram program(spread, gather, fabric);
  const bool complete = program.solve();
  Overlap result{.witness = program.witness(), .shares = {}, .rounds = program.rounds()};
  if (!complete || wanted == OverlapWanted::bound) return result;
  // All ranks root the same if that costs nothing, for plans are simpler then.
  std::vector<OverlapProgram> programs;
  for (const std::vector<double>& roots : {program.equal_roots(), program.roots()}) {
    OverlapProgram near = OverlapProgram::near_halves(program, roots, fabric);
    const bool is_solved = near.try_to_solve();
    result.rounds += near.rounds();
    if (!is_solved) continue;
    result.shares = near.exact_shares();
    if (result.shares) return result;
    programs.push_back(std::move(near));
  }
  result.shares = program.exact_shares();
  programs.push_back(std::move(program));
  for (const OverlapProgram& candidate : programs) {
    if (!result.shares) result.shares = candidate.rounded_shares();
  }
  return result;
}

}  // namespace banyan::plan
