// Finds the topologies to build of so many ranks with so many links each: the frontier of latency against bandwidth.
//
// Costs are those of a breadth-first broadcast (bfb.h), per phase (an allreduce is two):
//   T_L   its steps, each of which costs the latency of a message
//   T_B   the sum over steps of the most loaded link's time, in units of M / B: M the whole buffer, B the bandwidth of
//         all links out of a rank together
// If the two directions of a topology differ, the larger cost counts. No topology has less than the Moore bound of
// steps, or a T_B below (N - 1) / N.
//
// Candidates (Zhao et al., arXiv 2202.03356, section 4) are base graphs and what is made of smaller ones, which are
// looked for in the same way, by rules that say their cost without a look at the graph:
//   base    complete, complete bipartite, Hamming, ring, torus, hypercube, circulant, diamond, generalized Kautz, and
//           digraphs of Cayley found by search (cayley_search.h)
//   line    n ranks of degree d from n / d: T_L + 1, T_B + d / n at most
//   copies  n ranks of degree d from n / c of degree d / c: T_L (2 at least), optimal bandwidth stays optimal
//   product n1 n2 ranks of degree d1 + d2: T_L adds up, optimal bandwidth stays optimal
// The rules only choose which candidates to build. Every topology that is returned has been built, and its T_L and T_B
// are those of a breadth-first broadcast on the graph itself; up to kMostVerified ranks, the allreduce has also been
// planned and passed the verifier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"
#include "banyan/plan/graph/plan_observer.h"

namespace banyan::design {

// The rate at which every ordered pair of ranks can send at once, all pairs alike, in units of the bandwidth of a link.
struct AllToAllRate {
  Fraction per_pair = {};
  bool is_bound = true;  // no schedule has more; whether one has as much is not known. Else a schedule has it
};

struct Topology {
  std::string spec;    // without a bandwidth; for fabric/generate.h
  uint32_t steps = 0;  // T_L
  Fraction time = {};  // T_B in units of M / B
  AllToAllRate all_to_all = {};
  bool on_frontier = false;  // none has as few steps and as little time
  bool in_cables = false;    // every link has one in the other direction
  bool verified = false;     // its allreduce passed the verifier
};

struct TopologySearch {
  static constexpr uint64_t kMostRanks = 10'000, kMostDegree = 64, kMostVerified = 2048;
  static constexpr uint64_t kMostWithPaths = 1024;  // all-to-alls are planned up to here, on the frontier; else counted

  uint64_t ranks = 0, degree = 0;
  bool cables = false;  // only topologies whose links come in pairs
  plan::PlanObserver* observer = nullptr;
};

struct Topologies {
  std::vector<Topology> rows;  // by steps, then by time
  uint32_t least_steps = 0;    // of any graph of that degree: the Moore bound
  Fraction least_time;         // (N - 1) / N
};

// Throws Error{invalid_input} for fewer than two ranks, a degree of 0 or not below the ranks, or above the limits; and
// Error{unsupported} where no candidate is known: with `cables`, an odd number of ranks of odd degree.
Topologies find_topologies(const TopologySearch& search);

// The least number of steps in which a rank's data can reach all others, if each rank sends to `degree` others; with
// `cables`, one of these is the rank that it received from.
uint32_t moore_steps(uint64_t ranks, uint64_t degree, bool cables);

// A bound by counting: every pair's traffic takes as much capacity as its ranks are hops apart. For fabrics without
// switches whose links all have one bandwidth.
AllToAllRate hop_bound_of_all_to_all(const Fabric& fabric);
// The rate that the flow planner's paths reach (flow/all_to_all.h): within 1 % of the best.
AllToAllRate all_to_all_rate(const Fabric& fabric, plan::PlanObserver* observer = nullptr);

}  // namespace banyan::design
