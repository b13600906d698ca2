#include "banyan/plan/bound/overlap_program.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace banyan::plan {
namespace {

// In flows rates are integers of which about so many make the whole; a cut counts as violated beyond a part of them
// that rounding cannot explain.
constexpr double kWhole = 0x1p50;
constexpr double kTolerance = 1e-9;

// The terms of each column in one: a column may stand in a row once only.
std::vector<LinearProgram::Term> summed(std::span<const LinearProgram::Term> terms) {
  std::map<int, double> sums;
  for (const auto& [column, factor] : terms) sums[column] += factor;
  std::vector<LinearProgram::Term> row;
  for (const auto& [column, factor] : sums) {
    if (factor != 0) row.push_back({.column = column, .factor = factor});
  }
  return row;
}

}  // namespace

SwitchTerminals switches_with_power(const Fabric& fabric) {
  SwitchTerminals result;
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    if (fabric.node(NodeId{v}).multicast) result.spread.push_back(NodeId{v});
    if (fabric.node(NodeId{v}).reduce) result.gather.push_back(NodeId{v});
  }
  return result;
}

OverlapQuestion::OverlapQuestion(const Fabric& on, const Collective& collective, PlanObserver* observer)
    : OverlapQuestion(on, collective, observer, SwitchTerminals()) {
  // The bound: a switch at which trees may branch need not be balanced.
  for (uint32_t v = spread.participant_count(); v < spread.vertex_count(); ++v) {
    const Node& node = fabric.node(spread.node_of(v));
    spread_balanced[v] = !node.multicast;
    gather_balanced[v] = !node.reduce;
  }
}

OverlapQuestion::OverlapQuestion(const Fabric& on, const Collective& collective, PlanObserver* observer,
                                 const SwitchTerminals& terminals)
    : fabric(on),
      spread(fabric, collective, false, observer, terminals.spread),
      gather(fabric, collective, true, observer, terminals.gather),
      classes(spread, fabric),
      is_mirrored(classes.is_symmetric() && terminals.spread == terminals.gather) {
  std::vector<uint32_t> vertex_at(fabric.nodes().size(), 0);
  for (uint32_t v = 0; v < spread.vertex_count(); ++v) vertex_at[index(spread.node_of(v))] = v;
  // The two networks number switches differently where they have other terminals.
  for (uint32_t v = 0; v < gather.vertex_count(); ++v) {
    spread_vertex_of.push_back(vertex_at[index(gather.node_of(v))]);
  }
  spread_spanned.assign(spread.vertex_count(), 0);
  gather_spanned.assign(spread.vertex_count(), 0);
  for (uint32_t t = 0; t < spread.terminal_count(); ++t) spread_spanned[t] = 1;
  for (uint32_t t = 0; t < gather.terminal_count(); ++t) gather_spanned[spread_vertex_of[t]] = 1;
  for (uint32_t v = 0; v < spread.vertex_count(); ++v) {
    spread_balanced.push_back(!spread_spanned[v]);
    gather_balanced.push_back(!gather_spanned[v]);
  }
}

OverlapProgram::OverlapProgram(const OverlapQuestion& question) : OverlapProgram(question, 0) {
  // The program begins with the sets around one terminal, one of each class.
  const auto add_alone = [&](uint32_t vertex, bool gathering) {
    VertexSet alone(question.spread.vertex_count(), 0);
    alone[vertex] = 1;
    add_cut(alone, gathering);
  };
  for (const uint32_t t : roots_) {
    add_alone(t, false);
    if (!question.is_mirrored) add_alone(t, true);
  }
  for (size_t i = roots_.size(); i < spread_sinks_.size(); ++i) add_alone(spread_sinks_[i], false);
  if (question.is_mirrored) return;
  for (size_t i = roots_.size(); i < gather_sinks_.size(); ++i) {
    add_alone(question.spread_vertex_of[gather_sinks_[i]], true);
  }
}

OverlapProgram OverlapProgram::near_halves(const OverlapProgram& asked) {
  OverlapProgram result(*asked.question_, asked.throughput_);
  result.learn_cuts_of(asked);
  return result;
}

OverlapProgram::OverlapProgram(const OverlapQuestion& question, double throughput)
    : question_(&question),
      spread_cuts_(question.spread),
      gather_cuts_(question.gather),
      throughput_(throughput),
      is_second_(throughput > 0),
      roots_(choose_roots()),
      spread_sinks_(choose_sinks(false)),
      gather_sinks_(choose_sinks(true)),
      program_(is_second_) {
  const auto bandwidths = question.spread.bandwidths();
  unit_ = std::accumulate(bandwidths.begin(), bandwidths.end(), 0.0) / static_cast<double>(bandwidths.size());
  add_columns();
  add_links();
  if (is_second_) add_distances();
  add_switches();
}

std::vector<uint32_t> OverlapProgram::choose_roots() const {
  // One participant stands for each class. They come in an order in which neighbours follow each other.
  std::vector<uint8_t> seen(classes().vertex_classes(), 0);
  std::vector<uint32_t> roots;
  for (const uint32_t t : question_->spread.terminals_nearby()) {
    uint8_t& is_seen = seen[classes().of_vertex(t)];
    if (!is_seen && question_->spread.is_participant(t)) roots.push_back(t);
    is_seen = 1;
  }
  return roots;
}

// Participants first. These have the same numbers in both networks.
std::vector<uint32_t> OverlapProgram::choose_sinks(bool gathering) const {
  const Network& network = question_->network(gathering);
  std::vector<uint8_t> seen(classes().vertex_classes(), 0);
  std::vector<uint32_t> sinks = roots_;
  for (uint32_t t = network.participant_count(); t < network.terminal_count(); ++t) {
    uint8_t& is_seen = seen[classes().of_vertex(gathering ? question_->spread_vertex_of[t] : t)];
    if (!is_seen) sinks.push_back(t);
    is_seen = 1;
  }
  return sinks;
}

void OverlapProgram::add_columns() {
  const auto add = [&](std::vector<int>& columns, double cost) { columns.push_back(program_.add_column(cost)); };
  // Shares of links: where both directions are mirrored, one column stands for spreading and for gathering on the
  // opposite link.
  const uint32_t count = classes().arc_classes();
  for (uint32_t c = 0; c < count; ++c) add(spread_columns_, 0);
  for (uint32_t c = 0; c < count; ++c) {
    if (question_->is_mirrored) {
      gather_columns_.push_back(spread_columns_[classes().opposite(c)]);
    } else {
      add(gather_columns_, 0);
    }
  }
  // What ranks root. The first program maximises their sum, by a cost below zero.
  root_columns_.assign(classes().vertex_classes(), -1);
  for (const uint32_t t : roots_) {
    // All of a class root alike, so each counts as often as it has members.
    const double count_of_class = static_cast<double>(classes().vertex_size(classes().of_vertex(t)));
    root_columns_[classes().of_vertex(t)] = program_.add_column(is_second_ ? 0 : -count_of_class);
  }
  // The second program minimises the distances from what is wished; a class weighs as much as it has links.
  if (!is_second_) return;
  for (uint32_t c = 0; c < count; ++c) {
    add(spread_distances_, static_cast<double>(classes().arc_size(c)));
    if (!question_->is_mirrored) add(gather_distances_, static_cast<double>(classes().arc_size(c)));
  }
  // That roots are equal counts most.
  for (size_t i = 0; i < roots_.size(); ++i) {
    add(root_distances_, static_cast<double>(question_->spread.arcs().size()));
  }
}

void OverlapProgram::add_links() {
  // Links of one class have one bandwidth.
  capacity_.assign(classes().arc_classes(), 0);
  for (uint32_t a = 0; a < question_->spread.arcs().size(); ++a) {
    capacity_[classes().of_arc(a)] = static_cast<double>(question_->spread.bandwidths()[a]) / unit_;
  }
  for (uint32_t c = 0; c < classes().arc_classes(); ++c) {
    // Both directions share a link. One row says so for a class and its opposite.
    if (question_->is_mirrored && classes().opposite(c) < c) continue;
    const LinearProgram::Term terms[] = {{.column = spread_columns_[c], .factor = 1},
                                         {.column = gather_columns_[c], .factor = 1}};
    program_.add_row(summed(terms), -LinearProgram::kInfinity, capacity_[c]);
  }
}

// How far each share is from half of its link and each root from the mean, in parts of these.
void OverlapProgram::add_distances() {
  for (uint32_t c = 0; c < classes().arc_classes(); ++c) {
    add_distance(spread_columns_[c], spread_distances_[c], capacity_[c], capacity_[c] / 2);
    if (!question_->is_mirrored) {
      add_distance(gather_columns_[c], gather_distances_[c], capacity_[c], capacity_[c] / 2);
    }
  }
  // Roots keep near the mean, and together they reach the throughput that is asked for.
  std::vector<LinearProgram::Term> all;
  const double mean = throughput_ / question_->spread.participant_count();
  for (size_t i = 0; i < roots_.size(); ++i) {
    const int column = root_column(roots_[i]);
    add_distance(column, root_distances_[i], mean, mean);
    all.push_back({column, static_cast<double>(classes().vertex_size(classes().of_vertex(roots_[i])))});
  }
  program_.add_row(summed(all), throughput_, LinearProgram::kInfinity);
}

void OverlapProgram::add_distance(int column, int distance, double unit, double target) {
  // An absolute value takes two rows.
  for (const double sign : {1.0, -1.0}) {
    const LinearProgram::Term terms[] = {{.column = column, .factor = sign}, {.column = distance, .factor = -unit}};
    program_.add_row(summed(terms), -LinearProgram::kInfinity, sign * target);
  }
}

void OverlapProgram::add_switches() {
  const Network& network = question_->spread;
  std::vector<uint8_t> seen(classes().vertex_classes(), 0);
  for (uint32_t v = network.participant_count(); v < network.vertex_count(); ++v) {
    uint8_t& is_seen = seen[classes().of_vertex(v)];
    if (is_seen) continue;
    is_seen = 1;
    for (const bool gathering : {false, true}) {
      if (gathering && question_->is_mirrored) continue;
      // Switches that may branch need no balance: they give out more than they take in.
      if (!(gathering ? question_->gather_balanced : question_->spread_balanced)[v]) continue;
      std::vector<LinearProgram::Term> terms;
      for (const uint32_t a : network.in_arcs(v)) terms.push_back({columns(gathering)[classes().of_arc(a)], 1});
      for (const uint32_t a : network.out_arcs(v)) terms.push_back({columns(gathering)[classes().of_arc(a)], -1});
      program_.add_switch(summed(terms), gathering, v);
    }
  }
}

// What spreads must enter `outside` from, and what is gathered must leave it to, the rest. Whether that is new.
bool OverlapProgram::add_cut(const VertexSet& outside, bool gathering) {
  const Network& network = question_->spread;
  std::map<int, double> sums;
  for (uint32_t a = 0; a < network.arcs().size(); ++a) {
    const auto& [tail, head, link] = network.arcs()[a];
    // Spreading enters the set, gathering leaves it.
    const uint32_t near = gathering ? head : tail, far = gathering ? tail : head;
    if (!outside[near] && outside[far]) sums[columns(gathering)[classes().of_arc(a)]] += 1;
  }
  for (uint32_t t = 0; t < network.participant_count(); ++t) {
    if (!outside[t]) sums[root_column(t)] -= 1;
  }
  std::vector<LinearProgram::Term> terms;
  for (const auto& [column, factor] : sums) terms.push_back({.column = column, .factor = factor});
  // Sets that say the same about classes are one row: it stands for all images of the set.
  if (!known_.emplace(gathering, std::move(sums)).second) return false;
  program_.add_cut(summed(terms), gathering, outside);
  return true;
}

// A set of one direction's network in the numbers of the spreading one.
VertexSet OverlapProgram::as_spread(const VertexSet& outside, bool gathering) const {
  if (!gathering) return outside;
  VertexSet result(outside.size(), 0);
  for (uint32_t v = 0; v < outside.size(); ++v) result[question_->spread_vertex_of[v]] = outside[v];
  return result;
}

void OverlapProgram::learn_cuts_of(const OverlapProgram& other) {
  // The other's networks may have other switches for terminals, and so other numbers.
  const Network &network = question_->spread, &others = other.question_->spread;
  std::unordered_map<uint32_t, uint32_t> at;
  for (uint32_t v = 0; v < network.vertex_count(); ++v) at[index(network.node_of(v))] = v;
  for (const CutProgram::Row& row : other.program_.rows()) {
    // Each program has the rows of its own switches.
    if (row.outside.empty()) continue;
    VertexSet outside(row.outside.size(), 0);
    bool holds = false;
    for (uint32_t v = 0; v < outside.size(); ++v) {
      if (!row.outside[v]) continue;
      const uint32_t here = at.at(index(others.node_of(v)));
      outside[here] = 1;
      holds |= (row.direction != 0 ? question_->gather_spanned : question_->spread_spanned)[here] != 0;
    }
    if (holds) add_cut(outside, row.direction != 0);
  }
}

CutProgram::Step OverlapProgram::solve(WorkLeft& work) {
  // Only the second program can be infeasible: it is asked for a throughput.
  if (!program_.solve(question_->spread, work)) return CutProgram::Step::infeasible;
  // The throughput is what all ranks root, each class as often as it has members.
  throughput_ = 0;
  for (const uint32_t t : roots_) {
    throughput_ += program_.value(root_column(t)) * static_cast<double>(classes().vertex_size(classes().of_vertex(t)));
  }
  return add_violated() ? CutProgram::Step::violated : CutProgram::Step::done;
}

bool OverlapProgram::add_violated() {
  const Network& network = question_->spread;
  // Rates become integers so small that all arcs and supplies together are at most kWhole, if none is above four times
  // the throughput.
  const double whole = kWhole / throughput_ / 4 / static_cast<double>(network.arcs().size() + network.terminal_count());
  std::vector<int64_t> supply, capacity(network.arcs().size());
  for (uint32_t t = 0; t < network.participant_count(); ++t) {
    supply.push_back(std::max<int64_t>(0, std::llround(program_.value(root_column(t)) * whole)));
  }
  bool any = false;
  for (const bool gathering : {false, true}) {
    if (gathering && question_->is_mirrored) continue;
    // A cut counts as violated beyond the tolerance only; the same flow check serves both directions.
    const double slack = kTolerance * throughput_;
    for (uint32_t a = 0; a < capacity.size(); ++a) {
      const double rate = program_.value(columns(gathering)[classes().of_arc(a)]);
      capacity[a] = std::max<int64_t>(0, std::llround((rate + slack) * whole));
    }
    supply.resize(question_->network(gathering).terminal_count(), 0);
    (gathering ? gather_cuts_ : spread_cuts_)
        .each_violated({.capacity = capacity, .supply = supply}, gathering ? gather_sinks_ : spread_sinks_,
                       [&](const VertexSet& outside) { any |= add_cut(as_spread(outside, gathering), gathering); });
  }
  return any;
}

OverlapRates OverlapProgram::rates() const {
  OverlapRates rates;
  for (uint32_t a = 0; a < question_->spread.arcs().size(); ++a) {
    // All of a class have the same rate.
    rates.spread.push_back(program_.value(spread_columns_[classes().of_arc(a)]) * unit_);
    rates.gather.push_back(program_.value(gather_columns_[classes().of_arc(a)]) * unit_);
  }
  for (uint32_t t = 0; t < question_->spread.participant_count(); ++t) {
    rates.roots.push_back(program_.value(root_column(t)) * unit_);
  }
  return rates;
}

CutsWitness OverlapProgram::witness_of(const std::vector<int64_t>& multipliers) const {
  CutsWitness witness = program_.witness_of(multipliers, question_->spread);
  witness.over_images = true;
  return witness;
}

}  // namespace banyan::plan
