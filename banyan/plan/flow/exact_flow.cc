#include "banyan/plan/flow/exact_flow.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/plan/flow/arc_lengths.h"
#include "banyan/plan/flow/flow_paths.h"
#include "banyan/plan/flow/path_balance.h"
#include "banyan/plan/lp/linear_program.h"

namespace banyan::plan {
namespace {

// Of CLP's answers, beside 1: what they are mostly within, and what they are sometimes.
constexpr double kNoise[] = {1e-9, 1e-6};
constexpr double kGoodGap = 1e-7;                        // between load and bound, of uneven demand
constexpr int64_t kMostParts = int64_t{1} << 13;         // into which a unit of demand may be cut
constexpr double kSlack = 1e-9;                          // left to the load by which ways are made short
constexpr double kCostOfArc = 1, kCostOfForwarding = 8;  // per unit of flow: of every arc, and of one out of a terminal

class FlowProgram {
 public:
  FlowProgram(const Network& network, const Demand& demand, const NetworkSymmetry& symmetry, int128 divisor)
      : network_(network), demand_(demand), symmetry_(symmetry), most_length_(most_length(network, divisor)) {
    for (const uint32_t source : symmetry.representatives()) {
      if (demand.out_of(source) > 0) sources_.push_back(source);
    }
    orbit_bandwidth_.assign(symmetry.arc_orbit_weights().size(), 0);
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      orbit_bandwidth_[symmetry.arc_orbit(a)] =
          static_cast<double>(network.bandwidths()[a]) /
          static_cast<double>(symmetry.arc_orbit_weights()[symmetry.arc_orbit(a)]);
    }
  }

  ConcurrentFlow solve() {
    // The first program finds the least load, and by its duals the lengths that prove it. The second one keeps the load
    // and makes paths short.
    scale();
    build();
    const LinearProgram::Solution quickest = program_.solve([&] { network_.tell_observer(); });
    note_lengths(quickest);
    ask_for_short_ways(quickest.columns[load_]);
    read_flows(program_.solve([&] { network_.tell_observer(); }));
    // Flows are read as fractions, with as little noise as possible. They are rounded where no fractions fit.
    std::optional<ConcurrentFlow> best;
    for (const double noise : kNoise) {
      const std::optional<PathFlows> exact = exact_paths(noise);
      if (!exact) continue;
      ConcurrentFlow found = answer(*exact);
      if (demand_.is_uniform() || found.gap() <= kGoodGap) return found;
      if (!best || found.load < best->load) best = std::move(found);
    }
    ConcurrentFlow rounded = answer(rounded_paths());
    return best && best->load <= rounded.load ? std::move(*best) : std::move(rounded);
  }

 private:
  // A load of about 1 and flows of about 1 suit CLP: demands are divided by their mean, bandwidths by what all arcs
  // must carry at least.
  void scale();
  void build();
  void note_lengths(const LinearProgram::Solution& solution);
  void ask_for_short_ways(double load);
  void read_flows(const LinearProgram::Solution& solution);
  std::optional<int64_t> common_denominator(double noise_of_unit) const;
  std::optional<PathFlows> exact_paths(double noise) const;
  PathFlows rounded_paths() const;
  std::vector<double> amounts_of(uint32_t source, double parts) const;
  void add_images(const PathFlows& paths, size_t begin, size_t end, PathFlows& all) const;
  ConcurrentFlow answer(const PathFlows& paths) const;

  const Network& network_;
  const Demand& demand_;
  const NetworkSymmetry& symmetry_;
  const uint64_t most_length_;
  std::vector<uint32_t> sources_;
  std::vector<double> orbit_bandwidth_;  // that the sources' own flows may use of an orbit's arcs together
  double demand_unit_ = 1, bandwidth_unit_ = 1;
  LinearProgram program_;
  int load_ = 0;
  std::vector<std::vector<int>> columns_;  // by source and arc; -1: none
  std::vector<int> orbit_rows_;
  std::vector<uint64_t> lengths_;           // by arc
  std::vector<std::vector<double>> flows_;  // by source and arc, in units of demand
};

void FlowProgram::scale() {
  demand_unit_ = static_cast<double>(demand_.total()) / static_cast<double>(demand_.pairs());
  const double bandwidth = std::accumulate(orbit_bandwidth_.begin(), orbit_bandwidth_.end(), 0.0);
  // Arcs must carry at least every demand times the fewest arcs of its way.
  ShortestPaths ways(network_);
  const std::vector<uint64_t> hops(network_.arcs().size(), 1);
  double crossed = 0;
  for (const uint32_t source : sources_) {
    ways.search(hops, source);
    for (uint32_t t = 0; t < demand_.terminals(); ++t) {
      if (demand_.of(source, t) > 0)
        crossed += static_cast<double>(demand_.of(source, t)) * static_cast<double>(ways.distance(t));
    }
  }
  bandwidth_unit_ = bandwidth / (crossed / demand_unit_);
}

// Columns: the load, then the flow of each source on each arc. No flow returns to its source.
void FlowProgram::build() {
  load_ = program_.add_column(1);
  std::vector<std::vector<LinearProgram::Term>> crossing(orbit_bandwidth_.size());
  for (const uint32_t source : sources_) {
    std::vector<int>& columns = columns_.emplace_back(network_.arcs().size(), -1);
    for (uint32_t a = 0; a < network_.arcs().size(); ++a) {
      if (network_.arcs()[a].head != source) columns[a] = program_.add_column(0);
    }
  }
  // Rows: at every vertex but the source, what comes in less what goes out is the demand there.
  for (size_t i = 0; i < sources_.size(); ++i) {
    std::vector<LinearProgram::Term> terms;
    for (uint32_t v = 0; v < network_.vertex_count(); ++v) {
      if (v == sources_[i]) continue;
      terms.clear();
      for (const uint32_t a : network_.in_arcs(v)) terms.push_back({columns_[i][a], 1});
      for (const uint32_t a : network_.out_arcs(v)) {
        if (columns_[i][a] >= 0) terms.push_back({columns_[i][a], -1});
      }
      const double amount =
          network_.is_terminal(v) ? static_cast<double>(demand_.of(sources_[i], v)) / demand_unit_ : 0;
      program_.add_row(terms, amount, amount);
    }
    for (uint32_t a = 0; a < network_.arcs().size(); ++a) {
      if (columns_[i][a] >= 0) crossing[symmetry_.arc_orbit(a)].push_back({columns_[i][a], 1});
    }
  }
  // Rows: all flows on an orbit of arcs keep within the load times its bandwidth.
  for (size_t orbit = 0; orbit < crossing.size(); ++orbit) {
    crossing[orbit].push_back({load_, -orbit_bandwidth_[orbit] / bandwidth_unit_});
    orbit_rows_.push_back(program_.add_row(crossing[orbit], -LinearProgram::kInfinity, 0));
  }
}

// The duals of the arcs' rows, in whole numbers, are the lengths of the proof.
void FlowProgram::note_lengths(const LinearProgram::Solution& solution) {
  std::vector<double> by_orbit;
  for (const int row : orbit_rows_) by_orbit.push_back(std::max(0.0, -solution.duals[row]));
  const std::vector<uint64_t> whole = whole_lengths(by_orbit, most_length_);
  for (uint32_t a = 0; a < network_.arcs().size(); ++a) lengths_.push_back(whole[symmetry_.arc_orbit(a)]);
}

// The load may not grow, and the arcs that flows cross cost instead of it.
void FlowProgram::ask_for_short_ways(double load) {
  const LinearProgram::Term only_load{load_, 1};
  program_.add_row(std::span(&only_load, 1), -LinearProgram::kInfinity, load * (1 + kSlack));
  program_.change_cost(load_, 0);
  for (const std::vector<int>& columns : columns_) {
    for (uint32_t a = 0; a < columns.size(); ++a) {
      const double cost = kCostOfArc + (network_.is_terminal(network_.arcs()[a].tail) ? kCostOfForwarding : 0);
      if (columns[a] >= 0) program_.change_cost(columns[a], cost);
    }
  }
}

// Flows that are no more than the noise of the solver count as none.
void FlowProgram::read_flows(const LinearProgram::Solution& solution) {
  for (const std::vector<int>& columns : columns_) {
    std::vector<double>& flow = flows_.emplace_back(columns.size(), 0);
    for (uint32_t a = 0; a < columns.size(); ++a) {
      if (columns[a] < 0) continue;
      const double amount = solution.columns[columns[a]];
      if (amount > (demand_.is_uniform() ? kNoise[1] : 0)) flow[a] = amount * demand_unit_;
    }
  }
}

// The parts of a unit of demand in which all flows are whole, if there is such a number that is small.
std::optional<int64_t> FlowProgram::common_denominator(double noise_of_unit) const {
  constexpr double kWhole = 0x1p53;
  const double total = static_cast<double>(demand_.total());
  int64_t parts = 1;
  for (const std::vector<double>& flow : flows_) {
    for (const double amount : flow) {
      // Conserved or not, a flow of one source is no more than its demand, up to noise.
      if (std::max(total, amount) * static_cast<double>(parts) >= kWhole) return std::nullopt;
      const double scaled = amount * static_cast<double>(parts),
                   noise = noise_of_unit * demand_unit_ * static_cast<double>(parts);
      // The denominator grows until the flow is a whole number of parts, within the noise.
      int64_t more = 1;
      while (std::abs(nearest_fraction(scaled, more).to_double() - scaled) > noise) {
        more *= 2;
        if (parts * more > kMostParts) return std::nullopt;
      }
      parts *= static_cast<int64_t>(nearest_fraction(scaled, more).denominator());
    }
  }
  if (total * static_cast<double>(parts) >= kWhole) return std::nullopt;
  return parts;
}

std::vector<double> FlowProgram::amounts_of(uint32_t source, double parts) const {
  std::vector<double> amounts;
  for (uint32_t t = 0; t < demand_.terminals(); ++t)
    amounts.push_back(static_cast<double>(demand_.of(source, t)) * parts);
  return amounts;
}

// Paths of flows in whole parts, or nothing where the parts are not conserved at some vertex.
std::optional<PathFlows> FlowProgram::exact_paths(double noise) const {
  // Flows in whole parts of a unit, which must be conserved exactly at every vertex.
  const std::optional<int64_t> parts = common_denominator(noise);
  if (!parts) return std::nullopt;
  PathFlows all;
  all.units_per_demand = *parts;
  for (size_t i = 0; i < sources_.size(); ++i) {
    std::vector<double> flow = flows_[i];
    for (double& amount : flow) amount = std::round(amount * static_cast<double>(*parts));
    const std::vector<double> amounts = amounts_of(sources_[i], static_cast<double>(*parts));
    for (uint32_t v = 0; v < network_.vertex_count(); ++v) {
      double left = network_.is_terminal(v) ? -amounts[v] : 0;
      for (const uint32_t a : network_.in_arcs(v)) left += flow[a];
      for (const uint32_t a : network_.out_arcs(v)) left -= flow[a];
      if (left != 0 && v != sources_[i]) return std::nullopt;
    }
    // Whole flows that are conserved fall apart into paths without a rest.
    RoughPaths paths;
    take_apart(network_, sources_[i], std::move(flow), amounts, {}, paths);
    PathFlows own;
    for (size_t p = 0; p < paths.size(); ++p)
      own.add(paths[p].source, paths[p].target, static_cast<int64_t>(paths[p].amount), paths[p].arcs);
    add_images(own, 0, own.size(), all);
  }
  return all;
}

// Paths of flows with their noise; what noise leaves over is rounded so that every pair ships its demand.
PathFlows FlowProgram::rounded_paths() const {
  RoughPaths paths;
  // Arcs that carry the greatest load are dear; of the others few are better than many.
  std::vector<uint64_t> prices;
  for (const uint64_t length : lengths_) prices.push_back(length + 1);
  const double noise = demand_.is_uniform() ? kNoise[1] : kNoise[0];
  const double least = demand_.is_uniform() ? 0 : kNoise[0] * demand_unit_;
  for (size_t i = 0; i < sources_.size(); ++i) {
    take_apart(network_, sources_[i], flows_[i], amounts_of(sources_[i], 1),
               {.noise = noise, .least = least, .lengths = prices}, paths);
  }
  std::vector<uint32_t> orbits;
  for (uint32_t a = 0; a < network_.arcs().size(); ++a) orbits.push_back(symmetry_.arc_orbit(a));
  const PathFlows rounded = round_amounts(paths, demand_, {.of = orbits, .bandwidth = orbit_bandwidth_},
                                          demand_.is_uniform() ? kLossOfRounding : kLossOfExactRounding);
  // Paths come by source: each run of one source is repeated for the sources that it stands for.
  PathFlows all;
  all.units_per_demand = rounded.units_per_demand;
  for (size_t begin = 0, end = 0; begin < rounded.size(); begin = end) {
    while (end < rounded.size() && rounded[end].source == rounded[begin].source) ++end;
    add_images(rounded, begin, end, all);
  }
  return all;
}

// The paths [begin, end) of one source, and their images for the rest of its orbit.
void FlowProgram::add_images(const PathFlows& paths, size_t begin, size_t end, PathFlows& all) const {
  if (begin == end) return;
  std::vector<size_t> starts;  // in `all`, by place in the orbit
  std::vector<uint32_t> arcs;
  symmetry_.for_orbit(paths[begin].source, [&](uint32_t, size_t from, size_t generator) {
    starts.push_back(all.size());
    for (size_t i = begin; i < end; ++i) {
      if (from == NetworkSymmetry::kFirst) {
        all.add(paths[i]);
        continue;
      }
      // A later source of the orbit is the image of an earlier one by a generator, and so are its paths.
      const PathFlows::Path path = all[starts[from] + i - begin];
      arcs.clear();
      for (const uint32_t a : path.arcs) arcs.push_back(symmetry_.arc(generator, a));
      all.add(symmetry_.vertex(generator, path.source), symmetry_.vertex(generator, path.target), path.amount, arcs);
    }
  });
}

ConcurrentFlow FlowProgram::answer(const PathFlows& paths) const {
  ConcurrentFlow flow{.paths = paths, .lengths = lengths_};
  flow.paths.sort();
  // Bound and load are counted anew in fractions, whatever the solver said.
  flow.bound = least_load(network_, demand_, lengths_);
  flow.load = greatest_load(network_, flow.paths);
  CHECK(flow.load >= flow.bound) << flow.load << " is less than the bound " << flow.bound;
  return flow;
}

}  // namespace

size_t exact_flow_columns(const Network& network, const Demand& demand, const NetworkSymmetry& symmetry) {
  size_t columns = 0;
  for (const uint32_t source : symmetry.representatives()) {
    if (demand.out_of(source) > 0) columns += network.arcs().size();
  }
  return columns;
}

ConcurrentFlow solve_exactly(const Network& network, const Demand& demand, const NetworkSymmetry& symmetry,
                             const FlowOptions& options) {
  try {
    return FlowProgram(network, demand, symmetry, options.divisor).solve();
  } catch (const Error& error) {
    // A program that ways lead through has an answer: CLP does not find it where numbers are too diverse.
    if (error.code() != ErrorCode::unsupported) throw;
  }
  return balance_paths(network, demand, options);
}

}  // namespace banyan::plan
