#include "banyan/plan/bound/overlap_rounding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "banyan/plan/bound/cuts_witness.h"
#include "banyan/plan/bound/fractions.h"

namespace banyan::plan {
namespace {

// A rank sends every piece out, in its in-tree or, as its root, in its out-tree; and takes every piece in.
CutsWitness witness_of_one_rank(const Network& network, uint32_t rank, bool sends) {
  CutsWitness witness{.cuts = {}, .potentials = {}, .over_images = false, .bound = Fraction(0)};
  // One cut counts what the rank's own pieces need, the other what the pieces of all others need.
  CutsWitness::Cut alone{.gathering = !sends, .inside = {network.node_of(rank)}, .times = 1};
  CutsWitness::Cut others{.gathering = sends, .inside = {}, .times = 1};
  for (uint32_t v = 0; v < network.vertex_count(); ++v) {
    if (v != rank) others.inside.push_back(network.node_of(v));
  }
  std::sort(others.inside.begin(), others.inside.end());
  witness.cuts = {std::move(alone), std::move(others)};
  return witness;
}

CutsWitness witness_of_narrowest_rank(const Network& network) {
  uint32_t narrowest = 0;
  bool sends = false;
  int128 least = -1;
  for (uint32_t t = 0; t < network.participant_count(); ++t) {
    for (const bool out : {false, true}) {
      int128 bandwidth = 0;
      for (const uint32_t a : out ? network.out_arcs(t) : network.in_arcs(t)) bandwidth += network.bandwidths()[a];
      // All pieces pass each rank once, out and in, so the least bandwidth of all ranks and directions counts.
      if (least >= 0 && bandwidth >= least) continue;
      least = bandwidth;
      narrowest = t;
      sends = out;
    }
  }
  return witness_of_one_rank(network, narrowest, sends);
}

int128 whole_parts(const Fraction& parts, const Network& network, uint32_t arc) {
  const Fraction room = parts * Fraction(network.bandwidths()[arc]);
  return room.numerator() / room.denominator();
}

int128 excess_at(const Network& network, uint32_t v, const std::vector<int64_t>& shares) {
  int128 excess = 0;
  for (const uint32_t a : network.in_arcs(v)) excess += shares[a];
  for (const uint32_t a : network.out_arcs(v)) excess -= shares[a];
  return excess;
}

// Takes away from what enters or leaves a switch in excess, from arcs of terminals first. It ends since it only takes.
void balance(const Network& network, std::span<const uint8_t> must_be_balanced, std::vector<int64_t>& shares) {
  const auto take = [&](uint32_t v, std::span<const uint32_t> arcs, int64_t excess, bool of_terminals) {
    for (const uint32_t a : arcs) {
      const uint32_t other = network.arcs()[a].tail == v ? network.arcs()[a].head : network.arcs()[a].tail;
      if (network.is_participant(other) != of_terminals) continue;
      const int64_t taken = std::min(excess, shares[a]);
      shares[a] -= taken;
      excess -= taken;
    }
    return excess;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t v = network.participant_count(); v < network.vertex_count(); ++v) {
      const int64_t excess = must_be_balanced[v] ? static_cast<int64_t>(excess_at(network, v, shares)) : 0;
      if (excess == 0) continue;
      changed = true;
      const auto arcs = excess > 0 ? network.in_arcs(v) : network.out_arcs(v);
      take(v, arcs, take(v, arcs, std::abs(excess), true), false);
    }
  }
}

bool satisfies_cuts(const OverlapShares& shares, const OverlapQuestion& question) {
  const auto satisfies = [&](const Network& network, const std::vector<int64_t>& capacity) {
    std::vector<int64_t> supply = shares.supply;
    supply.resize(network.terminal_count(), 0);
    return !CutCondition(network).find_violated({.capacity = capacity, .supply = supply});
  };
  return satisfies(question.spread, shares.spread) &&
         (question.is_mirrored || satisfies(question.gather, shares.gather));
}

// Whether shares keep within the links, are balanced and satisfy all cuts.
bool are_right(const OverlapShares& shares, const OverlapQuestion& question) {
  const Network& network = question.spread;
  for (uint32_t a = 0; a < network.arcs().size(); ++a) {
    if (shares.gather[a] < 0 || shares.spread[a] < 0) return false;
    // Both directions together keep within the link.
    if (int128{shares.gather[a]} + shares.spread[a] > whole_parts(shares.parts, network, a)) return false;
  }
  for (uint32_t v = network.participant_count(); v < network.vertex_count(); ++v) {
    if (question.gather_balanced[v] && excess_at(network, v, shares.gather) != 0) return false;
    if (question.spread_balanced[v] && excess_at(network, v, shares.spread) != 0) return false;
  }
  if (!std::ranges::all_of(shares.supply, [](int64_t supply) { return supply >= 0; })) return false;
  return std::accumulate(shares.supply.begin(), shares.supply.end(), int128{0}) > 0 && satisfies_cuts(shares, question);
}

// In `total` units, of which the part `kept` is rooted: the rest makes up for what is rounded down.
OverlapShares rounded_down(const OverlapRates& rates, const OverlapQuestion& question, double total, double kept) {
  const Network& network = question.spread;
  // A power of two, so that it is exact.
  const int scale = std::ilogb(total / std::accumulate(rates.roots.begin(), rates.roots.end(), 0.0));
  const double parts = std::ldexp(1.0, scale);
  OverlapShares result{.parts = scale < 0 ? Fraction(1, int128{1} << -scale) : Fraction(int128{1} << scale, 1),
                       .gather = {},
                       .spread = {},
                       .supply = {}};
  const auto down = [&](double rate) { return std::max<int64_t>(0, static_cast<int64_t>(rate * parts)); };
  for (uint32_t a = 0; a < network.arcs().size(); ++a) {
    // A hair beyond the link, which floating point may be, is taken off both alike.
    const double room =
        static_cast<double>(network.bandwidths()[a]) / std::max(1e-300, rates.spread[a] + rates.gather[a]);
    const double within = std::min(1.0, room) * (1 - 1e-12);
    result.spread.push_back(down(rates.spread[a] * within));
    result.gather.push_back(down(rates.gather[a] * within));
  }
  // Roots are rounded down by more than shares are, so that cuts hold with what balancing takes away.
  for (const double rate : rates.roots) result.supply.push_back(down(rate * kept));
  balance(network, question.spread_balanced, result.spread);
  // If mirrored, gathering is spreading turned round, and balanced with it.
  if (!question.is_mirrored) {
    balance(network, question.gather_balanced, result.gather);
    return result;
  }
  for (uint32_t a = 0; a < network.arcs().size(); ++a) {
    result.gather[a] = result.spread[question.classes.opposite_arc(a)];
  }
  return result;
}

}  // namespace

CutsWitness rounded_witness(const OverlapProgram& program, const OverlapQuestion& question) {
  CutsWitness best;
  const auto offer = [&](CutsWitness witness) {
    const ArcClasses& classes = question.classes;
    // A rounded dual is a witness of its own: its sums are counted anew, and the one that proves most is kept.
    const auto proven = count_crossings(witness, question.fabric, question.spread,
                                        witness.over_images ? classes : ArcClasses::alone(question.spread));
    if (!proven || !(best.bound < proven->seconds_per_byte())) return;
    witness.bound = proven->seconds_per_byte();
    best = std::move(witness);
  };
  // The dual, as fractions if they are few and as parts of its largest multiplier; the narrowest rank in any case.
  if (program.has_answer()) {
    const std::vector<double> multipliers = program.multipliers();
    if (const auto exact = as_fractions(multipliers)) offer(program.witness_of(exact->values));
    offer(program.witness_of(in_parts_of_the_largest(multipliers)));
  }
  offer(witness_of_narrowest_rank(question.spread));
  return best;
}

std::optional<OverlapShares> exact_shares(const OverlapRates& rates, const OverlapQuestion& question) {
  std::vector<double> values;
  for (const std::vector<double>* of : {&rates.spread, &rates.gather, &rates.roots}) {
    values.insert(values.end(), of->begin(), of->end());
  }
  const auto integers = as_fractions(values);
  if (!integers) return std::nullopt;
  // All rates get one common denominator: so many parts make a unit of bandwidth.
  const auto arcs = static_cast<std::ptrdiff_t>(rates.spread.size());
  const auto begin = integers->values.begin();
  OverlapShares result{.parts = Fraction(integers->denominator),
                       .gather = {begin + arcs, begin + 2 * arcs},
                       .spread = {begin, begin + arcs},
                       .supply = {begin + 2 * arcs, integers->values.end()}};
  // Floating point may have been taken for a wrong fraction. Exact sums tell.
  if (!are_right(result, question)) return std::nullopt;
  return result;
}

std::optional<OverlapShares> rounded_shares(const OverlapRates& rates, const OverlapQuestion& question) {
  // Few units first, and of each number the least loss first. All that is returned has been checked exactly.
  for (const int bits : {20, 26, 32, 38}) {
    for (const int loss : {18, 16, 14}) {
      OverlapShares result = rounded_down(rates, question, std::ldexp(1.0, bits), 1 - std::ldexp(1.0, -loss));
      if (are_right(result, question)) return result;
    }
  }
  return std::nullopt;
}

}  // namespace banyan::plan
