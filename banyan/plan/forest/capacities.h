// Integer capacities: what a number of trees per rank needs of every arc, so that trees can be counted in units.
//
// With k trees per unit of weight and a time of U per tree, arc e can carry floor(U * b_e) trees. At the optimum
// U = k * p/q with 1/x* = p/q. ForestColl (arXiv 2402.06787, section 5.1) takes k so that every U * b_e is whole. Only
// the arcs of binding cuts must be whole, though: with floors elsewhere a much smaller k often reaches the same
// optimum, and the cut condition tells exactly whether it does. Fewer trees per rank are fewer, larger messages.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/bound/bound.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

struct TreeCapacities {
  int64_t trees_per_weight = 0;   // k
  std::vector<int64_t> capacity;  // by arc of the network; switches are balanced
  std::vector<int64_t> supply;    // by terminal: k * weight
  bool exact = true;              // false: rounded_capacities
};

// A question: the network in which the trees of one direction of a collective are packed, and the cut that bounds them.
struct TreeQuestion {
  const Network& network;
  const Fabric& fabric;
  const Collective& collective;
  const CutWitness& witness;
};

// True if sums of units over all arcs and trees fit the 64 bits that they are counted in, with k trees per weight.
bool is_countable(int128 trees_per_weight, const Network& network, const Collective& collective);

// The number of trees that each terminal roots, with k per unit of weight.
std::vector<int64_t> supplies(int64_t trees_per_weight, const Collective& collective);

// The least k that reaches the bound, and its capacities. If bandwidths have so little in common that this k is not
// countable, the largest power of two that is, and `exact` is false. Throws Error{unsupported} when a switch cannot be
// balanced.
TreeCapacities optimal_capacities(const TreeQuestion& question);

// The least time that k trees per weight can reach (section 5.5 of the paper: at most (1 / (W k)) / min b_e seconds per
// byte above the bound). U is found exactly: it is j / b_e for some whole j and some bandwidth.
TreeCapacities capacities_for(int64_t trees_per_weight, const TreeQuestion& question);

// Without a search: k trees in a time that is sure to suffice, at most (2 / (W k)) / min b_e seconds per byte above the
// bound. For large k, where that is nothing.
TreeCapacities rounded_capacities(int64_t trees_per_weight, const TreeQuestion& question);

// Capacities floor(time * b_e) for k trees; `time` in units of 1 / network.unit(). Nothing where they are not feasible
// or a switch cannot be balanced.
std::optional<TreeCapacities> find_capacities_at(const Fraction& time, int64_t trees_per_weight,
                                                 const TreeQuestion& question);

// The least k up to some dozens that reaches `seconds_per_byte` with switches balanced, or nothing. For switches that
// are not balanced as they are: with all links' bandwidth to choose from, far fewer trees suffice than make what a
// program's answer carries whole.
std::optional<TreeCapacities> few_balanced_trees(const Fraction& seconds_per_byte, const Network& network,
                                                 const Collective& collective);

// The least `time` that satisfies all cuts: the largest capacity-to-bandwidth ratio that is needed. If switches cannot
// be balanced in it, capacities_for takes the next time in which they can.
Fraction least_time(int64_t trees_per_weight, const TreeQuestion& question);

}  // namespace banyan::plan
