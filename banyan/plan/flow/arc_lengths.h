// Lengths of arcs, and what they prove: the dual of the concurrent flow.
//
// A flow of D(s,t) from s to t along any paths crosses lengths of at least D(s,t) * dist(s,t). All arcs together carry
// at most sum of bandwidth * length for each second. So the greatest load, the seconds that one unit of each demand
// takes, is at least
//
//   sum of D(s,t) * dist(s,t)  /  sum of bandwidth * length          (Shahrokhi and Matula, JACM 37(2), 1990)
//
// whatever the lengths are, and for the best lengths it is just that (duality of linear programs). Lengths are whole
// numbers, so that what they prove is an exact fraction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/flow/demand.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// The shortest ways out of one source at a time, through any vertices. Dijkstra's algorithm with a binary heap,
// O(arcs log vertices).
class ShortestPaths {
 public:
  static constexpr uint64_t kMostLength = uint64_t{1} << 24;
  static constexpr uint64_t kUnreached = UINT64_MAX;

  explicit ShortestPaths(const Network& network);

  // `lengths`, by arc, are at most kMostLength.
  void search(std::span<const uint64_t> lengths, uint32_t source);
  uint64_t distance(uint32_t vertex) const { return distance_[vertex]; }
  // The arcs from the source to a vertex that was reached, in order; valid until the next call.
  std::span<const uint32_t> path_to(uint32_t vertex);

 private:
  const Network* network_;
  uint32_t source_ = 0;
  std::vector<uint64_t> distance_;
  std::vector<uint32_t> came_by_, way_;
  std::vector<uint64_t> heap_;
  // The arcs out of each vertex, one after the other.
  std::vector<uint32_t> first_, heads_, ids_;
};

// The least load that `lengths` prove. A path must join every pair with demand.
Fraction least_load(const Network& network, const Demand& demand, std::span<const uint64_t> lengths);

// The longest that an arc should be, at most ShortestPaths::kMostLength, so that what lengths prove is a fraction of
// 128 bits when it is divided by `divisor`: shorter ones where bandwidths or the divisor are large.
uint64_t most_length(const Network& network, int128 divisor);

// Whole numbers of at most `most` in the proportions of `values`, which are not negative and not all zero: exactly, up
// to what doubles lose, where a common denominator is small.
std::vector<uint64_t> whole_lengths(std::span<const double> values, uint64_t most = ShortestPaths::kMostLength);

}  // namespace banyan::plan
